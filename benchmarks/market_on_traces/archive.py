"""All cells of a run in one compressed file, from which its table and its picture can be made again."""

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.market_on_traces.cells import Cell, NoCells, read_cell

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
    NoCells
        If it is another file, or the number of cells is not the one in the first line.
    """
    try:
        head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        found = json.loads(head)
        command, commit, number = found["command"], found["commit"], found["cells"]
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        raise NoCells(f"{path}: expected a compressed file of cells, got another one ({error})") from error
    cells = tuple(read_cell(line) for line in lines)
    if len(cells) != number:
        raise NoCells(f"{path}: expected {number} cells, got {len(cells)}")
    return Archive(command, commit, cells)
