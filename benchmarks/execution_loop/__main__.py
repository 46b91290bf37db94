"""`python -m benchmarks.execution_loop`: what a loop of the executor costs while many jobs run, and while none does."""

import argparse
import os
import subprocess
import sys
import tempfile

from benchmarks.arguments import count


def main() -> None:
    """Measure in an installation of its own, in a temporary directory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.execution_loop", description=__doc__)
    parser.add_argument("--jobs", type=count, default=1_000, help="jobs that run at the same time")
    parser.add_argument("--loops", type=count, default=30, help="loops that are measured")
    given = parser.parse_args()
    code = f"from benchmarks.execution_loop.loop import show; show(jobs={given.jobs}, loops={given.loops})"
    with tempfile.TemporaryDirectory() as folder:
        own = {"SHADOWPRICE_VAR": folder, "DATABASE_URL": f"sqlite:///{folder}/rows.sqlite3", "REDIS_URL": ""}
        for command in (["migrate", "--verbosity", "0"], ["shell", "--verbosity", "0", "-c", code]):
            subprocess.run([sys.executable, "manage.py", *command], env=os.environ | own, check=True)


if __name__ == "__main__":
    main()
