"""A file of the runs of a figure that are complete, from which an interrupted reproduction goes on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from scheduling.model.types import Json


@dataclass(frozen=True)
class Measured:
    """The result of one run."""

    values: Mapping[str, float]
    """A number for each series."""
    inputs: frozenset[str]
    """Digests of what was drawn for it."""
    seconds: float
    """Processor time."""


@cache
def code_digest() -> str:
    """Return a digest of all code on which a run can depend: that of `scheduling` and of `studies`."""
    root = Path(__file__).parents[2]
    digest = sha256()
    for path in sorted(path for room in ("scheduling", "studies") for path in (root / room).rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


class RunFile:
    """Runs by point and seed, one JSON document a line.

    A line that was not completed is dropped, and so is the run of another version of the code.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Read the runs of an earlier time, or delete them."""
        self.path = path
        self._known: dict[tuple[object, int], Measured] = {}
        self.earlier_s = 0.0
        """Processor time of the runs that were read, s."""
        self.of_other_code = 0
        """Runs of an earlier time that another version of the code has made."""
        if not resume:
            path.unlink(missing_ok=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        kept = [line for line in whole if json.loads(line).get("code_sha256") == code_digest()]
        self.of_other_code = len(whole) - len(kept)
        if len(kept) < len(lines):
            path.write_text("".join(kept))
        for line in kept:
            self._take(json.loads(line))
        self.earlier_s = sum(measured.seconds for measured in self._known.values())

    def get(self, point: object, seed: int) -> Measured | None:
        """The result of a run; None if it was not completed."""
        return self._known.get((point, seed))

    def add(self, point: object, seed: int, measured: Measured) -> None:
        """Append the result of a run."""
        document: Json = {
            "point": point,
            "seed": seed,
            "values": dict(measured.values),
            "inputs": sorted(measured.inputs),
            "seconds": measured.seconds,
            "code_sha256": code_digest(),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(document, allow_nan=False) + "\n")
        self._take(document)

    def _take(self, document: Json) -> None:
        measured = Measured(document["values"], frozenset(document["inputs"]), document["seconds"])
        self._known[document["point"], document["seed"]] = measured
