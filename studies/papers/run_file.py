"""A file of the runs of a figure that are complete, from which an interrupted reproduction goes on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
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


class RunFile:
    """Runs by point and seed, one JSON document a line; a line that was not completed is dropped."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Read the runs of an earlier time, or delete them."""
        self.path = path
        self._known: dict[tuple[object, int], Measured] = {}
        self.earlier_s = 0.0
        """Processor time of the runs that were read, s."""
        if not resume:
            path.unlink(missing_ok=True)
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        whole = [line for line in lines if line.endswith("\n")]
        if len(whole) < len(lines):
            path.write_text("".join(whole))
        for line in whole:
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
        }
        with self.path.open("a") as file:
            file.write(json.dumps(document, allow_nan=False) + "\n")
        self._take(document)

    def _take(self, document: Json) -> None:
        measured = Measured(document["values"], frozenset(document["inputs"]), document["seconds"])
        self._known[document["point"], document["seed"]] = measured
