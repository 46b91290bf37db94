"""Write the generated files: all, or those whose path in `tests/data` matches a pattern such as `cases/dps/*`."""

import sys
from fnmatch import fnmatch

from tests.collection import OWN
from tests.data.make.files import MAKERS
from tests.data.make.traces.files import contents


def main(pattern: str = "*") -> None:
    """Make each file and write it, if its bytes are not what they were."""
    for name, make in MAKERS.items():
        if not fnmatch(name, pattern):
            continue
        path, text = OWN / name, make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{name}\n")
    for name, content in contents().items():
        path = OWN / "traces" / name
        if fnmatch(f"traces/{name}", pattern) and not (path.exists() and path.read_bytes() == content):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            sys.stdout.write(f"traces/{name}\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
