"""Record what the code decides, or compare it with a record: `python -m tests.corpus record|compare FILE`.

Both decide every case, which takes three minutes after kernels are compiled. The larger collection of test data takes
part where it is there. A comparison leaves out cases that are not in the record, and says how many they are.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Final

MOST_SHOWN: Final = 5
"""Differences of one case that are printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; exit status 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (("record", "write what is decided now"), ("compare", "compare it with what is decided now")):
        commands.add_parser(name, help=what).add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        _begin(directory)
        return _record(options.file) if options.command == "record" else _compare(options.file)


def _begin(directory: str) -> None:
    """Set up Django on an empty database of its own."""
    import django
    from django.core.management import call_command

    from scheduling import kernels

    os.environ.update(SHADOWPRICE_VAR=directory, DJANGO_SETTINGS_MODULE="config.settings")
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop("REDIS_URL", None)
    django.setup()
    call_command("migrate", verbosity=0)
    kernels.warm_up_all()  # before transactions, which hold the lock of the database


def _cases() -> Iterator[tuple[str, dict[str, object]]]:
    from tests.corpus import cases, days

    return chain(days.days(), cases.instances(), cases.traces(), cases.generated())


def _record(path: Path) -> int:
    from tests.corpus import comparing

    print(f"{comparing.write(path, _cases())} cases are in {path}")
    return 0


def _compare(path: Path) -> int:
    from tests.corpus import comparing

    before, same, different, new = comparing.updated(comparing.read(path)), 0, 0, 0
    for name, document in _cases():
        known = before.pop(name, None)
        if known is None:
            new += 1
            continue
        found = list(islice(comparing.differences(known, document), MOST_SHOWN))
        same, different = same + (not found), different + bool(found)
        for line in found:
            print(f"{name}: {line}")
    for name in before:
        print(f"{name}: is in the record and was not decided now")
    print(f"{same} cases are the same, {different} differ, {len(before)} are missing now, {new} are not in the record")
    return 1 if different or before else 0


if __name__ == "__main__":
    sys.exit(main())
