"""Known vulnerabilities of the packages in a requirements file: exit with 1 if there are any."""

import json
import subprocess
import sys
from pathlib import Path

LONGEST_S = 120


def main(requirements: str) -> int:
    """Check the file with pip-audit; a database that cannot be reached is no failure, and is named."""
    program = Path(sys.executable).with_name("pip-audit")
    options = ["--no-deps", "--disable-pip", "--timeout", "5", "--progress-spinner", "off", "--format", "json"]
    try:
        done = subprocess.run(
            [program, "-r", requirements, *options], capture_output=True, text=True, timeout=LONGEST_S
        )
        packages = json.loads(done.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        print("Known vulnerabilities were not checked: no database of them can be reached.")
        return 0
    checked = [one for one in packages if "skip_reason" not in one]
    found = [(one["name"], one["version"], v["id"]) for one in checked for v in one["vulns"]]
    for name, version, identifier in found:
        print(f"{name} {version}: {identifier}")
    if len(checked) < len(packages):
        print(f"Known vulnerabilities of {len(packages) - len(checked)} of {len(packages)} packages were not checked:")
        print("the database that can be reached does not know them.")
    else:
        print(f"{len(packages)} packages were checked for known vulnerabilities; {len(found)} were found.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
