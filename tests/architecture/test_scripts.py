"""Scripts of the tests end the processes that they start, also when they get SIGTERM."""

import re
import signal
import sys
from pathlib import Path

from tests.processes import ROOT, Process, python_env, wait_until

STARTS = re.compile(r"\b(Process|postgres|larger|brought_up|installation|native)\(")
"""Calls that start processes."""
SCRIPT = """
import sys, time
from pathlib import Path
from tests.processes import Process, end_on_sigterm

end_on_sigterm()
server = Process([sys.executable, "-c", "import time; time.sleep(60)"], log=Path(sys.argv[1]))
try:
    print("started", server.pid, flush=True)
    time.sleep(60)
finally:
    server.end()
"""


def test_a_script_that_gets_sigterm_ends_what_it_started(tmp_path: Path) -> None:
    script = Process(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "server")], log=tmp_path / "log", env=python_env(tmp_path)
    )
    try:
        wait_until(lambda: "started" in script.text(), what="the script")
        server = int(script.text().split()[1])
        script.popen.send_signal(signal.SIGTERM)
        assert script.popen.wait(30) == 128 + signal.SIGTERM
        assert not Path(f"/proc/{server}").exists()
    finally:
        script.end()


def test_every_script_that_starts_processes_ends_them_on_sigterm() -> None:
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / "tests").rglob("*.py")}
    scripts = {name for name, text in texts.items() if '\nif __name__ == "__main__":' in text and STARTS.search(text)}
    assert "tests/fuzz/__main__.py" in scripts
    assert {name for name in scripts if "\n    end_on_sigterm()" not in texts[name].replace("processes.", "")} == set()
