"""Instances as CSV: a row for each helper and client, in any order, with the times of the client at that helper."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Final

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import shown

TIMES: Final = ("release", "forward", "gap", "backward", "tail")
COLUMNS: Final = ("helper", "client", "memory_gb", "demand_gb", *TIMES)
OPTIONAL: Final = ("switch",)


def read_csv(text: str, *, slot_ms: object = 1) -> Json:
    """Read the document of an instance; helpers and clients keep the order in which they first appear.

    `memory_gb` and `switch` may be empty except in a helper's first row, `demand_gb` except in a client's first row;
    repeated values must be equal. Raises InvalidField naming the line and the column.
    """
    helpers: dict[str, Json] = {}
    clients: dict[str, Json] = {}
    cells: dict[tuple[str, str], Json] = {}
    for line, row in _rows(text):
        pair = row["helper"], row["client"]
        if pair in cells:
            raise InvalidField(f"line {line}", f"expected each pair once, got helper {pair[0]}, client {pair[1]} again")
        cells[pair] = {name: _slots(line, name, row[name]) for name in TIMES}
        _same(line, helpers, "helper", row, ("memory_gb", *(name for name in OPTIONAL if name in row)))
        _same(line, clients, "client", row, ("demand_gb",))
    _check_pairs(helpers, clients, cells)
    for helper in helpers.values():
        if "switch" in helper:
            helper["switch"] = _slots(0, f"switch of helper {helper['name']}", helper["switch"])
    return {
        "slot_ms": slot_ms,
        "helpers": list(helpers.values()),
        "clients": list(clients.values()),
        **{name: [[cells[i, j][name] for j in clients] for i in helpers] for name in TIMES},
    }


def _rows(text: str) -> Iterable[tuple[int, dict[str, str]]]:
    reader = csv.reader(StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if len(set(header)) < len(header) or not set(COLUMNS) <= set(header) <= {*COLUMNS, *OPTIONAL}:
            wanted = f"{', '.join(COLUMNS)} and, if needed, {', '.join(OPTIONAL)}"
            raise InvalidField("line 1", f"expected the columns {wanted}, got {shown(', '.join(header))}")
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise InvalidField(f"line {reader.line_num}", f"expected {len(header)} cells, got {len(row)}")
            found = {name: cell.strip() for name, cell in zip(header, row, strict=True)}
            for name in ("helper", "client"):
                if not found[name]:
                    raise InvalidField(f"line {reader.line_num}, {name}", "missing")
            yield reader.line_num, found
    except csv.Error as error:
        raise InvalidField(f"line {reader.line_num}", f"expected CSV, got an invalid line: {error}") from None


def _same(line: int, known: dict[str, Json], kind: str, row: dict[str, str], names: tuple[str, ...]) -> None:
    """Keep the values of a row for its helper or client; they must be equal to those of earlier rows."""
    one = known.setdefault(row[kind], {"name": row[kind]})
    for name in names:
        if row[name] and one.setdefault(name, row[name]) != row[name]:
            raise InvalidField(
                f"line {line}, {name}",
                f"expected {one[name]} as in earlier rows of {kind} {row[kind]}, got {row[name]}",
            )


def _slots(line: int, name: str, text: str) -> int:
    where = f"line {line}, {name}" if line else name
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InvalidField(where, f"expected whole slots, 0 or more, got {shown(text)}")
    return int(text)


def _check_pairs(helpers: dict[str, Json], clients: dict[str, Json], cells: dict[tuple[str, str], Json]) -> None:
    if not cells:
        raise InvalidField("line 2", "expected a row for each helper and client, got none")
    if len(cells) < len(helpers) * len(clients):
        i, j = next((i, j) for i in helpers for j in clients if (i, j) not in cells)
        raise InvalidField("rows", f"expected a row for each helper and client, got none for helper {i}, client {j}")
