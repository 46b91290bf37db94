"""Version of the code of a run: the commit if there is one, and always a hash of the sources."""

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final = ("scheduling", "studies/workloads", "cluster/traces")
"""Packages that can change an outcome."""


@dataclass(frozen=True)
class Version:
    """Version of the running code."""

    commit: str
    """Commit, hex; empty if neither a repository nor SHADOWPRICE_COMMIT names one."""
    sources: str
    """SHA-256 of the sources that can change an outcome, hex."""


@lru_cache(maxsize=1)
def version() -> Version:
    """Return the version; it is read once in each process."""
    total = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return Version(os.environ.get("SHADOWPRICE_COMMIT", "") or _head(ROOT / ".git"), total.hexdigest())


def _head(git: Path) -> str:
    """Return the commit that is checked out; empty if it is unknown."""
    try:
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        if (git / name).is_file():
            return (git / name).read_text().strip()
        packed = (git / "packed-refs").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
