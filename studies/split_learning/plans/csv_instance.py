"""Instances as CSV: a row for each helper and client, in any order, with the times of the client at that helper."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from typing import Final

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from scheduling.model.validation import check_each, shown

TIMES: Final = ("release", "forward", "gap", "backward", "tail")
COLUMNS: Final = ("helper", "client", "memory_gb", "demand_gb", *TIMES)
OPTIONAL: Final = ("switch",)


def read_csv(text: str, *, slot_ms: object = 1) -> Json:
    """Read the document of an instance; helpers and clients keep the order in which they first appear.

    `memory_gb` and `switch` may be empty except in a helper's first row, `demand_gb` except in a client's first row;
    repeated values must be equal. Raises InvalidField naming the lines and the columns of all wrong cells.
    """
    table = _Table()
    check_each(_rows(text, table))
    helpers, clients, cells = table.helpers, table.clients, table.cells
    _check_pairs(table)
    for helper in helpers.values():
        if "switch" in helper:
            helper["switch"] = _slots(0, f"switch of helper {helper['name']}", helper["switch"])
    return {
        "slot_ms": slot_ms,
        "helpers": list(helpers.values()),
        "clients": list(clients.values()),
        **{name: [[cells[i, j][name] for j in clients] for i in helpers] for name in TIMES},
    }


@dataclass(frozen=True)
class _Table:
    """Contents of the rows that were read."""

    helpers: dict[str, Json] = field(default_factory=dict)
    clients: dict[str, Json] = field(default_factory=dict)
    cells: dict[tuple[str, str], Json] = field(default_factory=dict)
    """Times by helper and client."""

    def add(self, line: int, row: dict[str, str]) -> None:
        """Take a row; raises InvalidField naming all its wrong cells."""
        refuse_all([InvalidField(f"line {line}, {name}", "missing") for name in ("helper", "client") if not row[name]])
        pair = row["helper"], row["client"]
        if pair in self.cells:
            raise InvalidField(f"line {line}", f"expected each pair once, got helper {pair[0]}, client {pair[1]} again")
        times = self.cells[pair] = {}
        helper = self.helpers.setdefault(pair[0], {"name": pair[0]})
        client = self.clients.setdefault(pair[1], {"name": pair[1]})
        of_helper = ["memory_gb", *(name for name in OPTIONAL if name in row)]
        check_each([
            *(partial(_keep, line, f"helper {pair[0]}", helper, name, row[name]) for name in of_helper),
            partial(_keep, line, f"client {pair[1]}", client, "demand_gb", row["demand_gb"]),
            *(partial(_keep_time, line, times, name, row[name]) for name in TIMES),
        ])  # fmt: skip


def _rows(text: str, table: _Table) -> Iterator[Callable[[], None]]:
    """Yield a check for each row, which adds it to the table; raises InvalidField if the columns are wrong."""
    reader = csv.reader(StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if len(set(header)) < len(header) or not set(COLUMNS) <= set(header) <= {*COLUMNS, *OPTIONAL}:
            wanted = f"{', '.join(COLUMNS)} and, if needed, {', '.join(OPTIONAL)}"
            raise InvalidField("line 1", f"expected the columns {wanted}, got {shown(', '.join(header))}")
        for row in reader:
            if any(cell.strip() for cell in row):
                yield partial(_row, table, reader.line_num, header, row)
    except csv.Error as error:
        wrong = InvalidField(f"line {reader.line_num}", f"expected CSV, got an invalid line: {error}")
        yield partial(refuse_all, [wrong])


def _row(table: _Table, line: int, header: list[str], row: list[str]) -> None:
    if len(row) != len(header):
        raise InvalidField(f"line {line}", f"expected {len(header)} cells, got {len(row)}")
    table.add(line, {name: cell.strip() for name, cell in zip(header, row, strict=True)})


def _keep(line: int, owner: str, known: Json, name: str, text: str) -> None:
    """Keep the value of a helper or client; it must be equal to that of earlier rows."""
    if text and known.setdefault(name, text) != text:
        raise InvalidField(f"line {line}, {name}", f"expected {known[name]} as in earlier rows of {owner}, got {text}")


def _keep_time(line: int, times: Json, name: str, text: str) -> None:
    times[name] = _slots(line, name, text)


def _slots(line: int, name: str, text: str) -> int:
    where = f"line {line}, {name}" if line else name
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise InvalidField(where, f"expected whole slots, 0 or more, got {shown(text)}")
    return int(text)


def _check_pairs(table: _Table) -> None:
    helpers, clients, cells = table.helpers, table.clients, table.cells
    if not cells:
        raise InvalidField("line 2", "expected a row for each helper and client, got none")
    missing = len(helpers) * len(clients) - len(cells)
    if missing:
        i, j = next((i, j) for i in helpers for j in clients if (i, j) not in cells)
        others = f" and for {missing - 1:,} more" if missing > 1 else ""
        raise InvalidField(
            "rows", f"expected a row for each helper and client, got none for helper {i}, client {j}{others}"
        )
