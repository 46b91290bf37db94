"""All cells of a run in one compressed file, from which its table and its picture can be made again."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.market_on_traces.cells import Cell

COMMITTED: Final = Path(__file__).parents[2] / "docs/measurements/market-on-traces/cells.jsonl.gz"
"""The cells of the tables in `docs/measurements/market-on-traces.md`."""
OWN_CELLS: Final = COMMITTED.with_name("own-cells.jsonl.gz")
"""Those of `docs/measurements/market-on-own-samples.md`."""


@dataclass(frozen=True)
class Archive:
    """The cells of a run, with what made them."""

    command: str
    """The command that computes them."""
    commit: str
    """The commit at which its last cells were computed."""
    cells: tuple[Cell, ...]
    """In the order of the run."""


def write_archive(path: Path, archive: Archive) -> None:
    """Write a line of JSON with the command and the commit, and one for each cell; equal archives have equal bytes."""
    head = {"command": archive.command, "commit": archive.commit, "cells": len(archive.cells)}
    lines = [json.dumps(one, allow_nan=False) for one in (head, *(cell.to_json() for cell in archive.cells))]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 9, mtime=0))


def read_archive(path: Path) -> Archive:
    """Return what `write_archive` wrote.

    Raises
    ------
    ValueError
        If the number of cells is not the one in the first line.
    """
    head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    found = json.loads(head)
    cells: Sequence[Cell] = [Cell.from_json(json.loads(line)) for line in lines]
    if len(cells) != found["cells"]:
        raise ValueError(f"{path}: expected {found['cells']} cells, got {len(cells)}")
    return Archive(found["command"], found["commit"], tuple(cells))
