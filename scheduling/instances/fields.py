"""Checks of fields that several families of instance files have, and the document itself."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import pairwise

from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.json_text import read_json
from scheduling.model.types import Json
from scheduling.model.utility import Utility, utility_from_json
from scheduling.model.validation import check_each, check_fraction, check_integer, check_list, shown

MB_TO_MBIT = 8
MOST_SLOTS = 10_000
MOST_CHUNKS = 100_000
"""More workers than machines exist are never placed, so this bound changes no result and limits memory."""
MOST_CELLS = 20_000_000
"""Slots x servers x resources a file may ask for: what a laptop's memory holds a few times over."""


def parse_document(text: str) -> object:
    """A JSON document with exact decimals; raises InvalidField if it is not JSON. The reader of a field rejects NaN."""
    try:
        return read_json(text, parse_float=Decimal)
    except ValueError as error:
        raise InvalidField("document", f"expected JSON, got an invalid document: {error}") from None


def inner_document(document: object) -> object:
    """Return the instance of a document, which may be under `instance`."""
    return document["instance"] if isinstance(document, dict) and "instance" in document else document


def check_some(where: str, rows: object, word: str) -> list[object]:
    """Check a list that is not empty; `word` names one entry."""
    found = check_list(where, rows)
    if not found:
        raise InvalidField(where, f"expected at least one {word}, got none")
    return found


def read_utility(where: str, document: Json) -> Utility:
    """Read the utility of a job."""
    return utility_from_json(document, where)


def check_integers(where: str, row: object, length: int) -> list[int]:
    """Check a list of `length` whole numbers of at least 0."""
    entries = enumerate(check_list(where, row, length=length))
    return check_each(partial(check_integer, f"{where}[{i}]", number) for i, number in entries)


def check_units(where: str, row: object, capacity: Sequence[int]) -> list[int]:
    """Check a list of whole numbers, each of at most its number in `capacity`."""
    entries = enumerate(zip(check_list(where, row, length=len(capacity)), capacity, strict=True))
    return check_each(partial(check_integer, f"{where}[{i}]", number, high=most) for i, (number, most) in entries)


def check_fractions(where: str, row: object, length: int) -> tuple[Fraction, ...]:
    """Check a list of `length` exact rationals of at least 0."""
    entries = enumerate(check_list(where, row, length=length))
    return tuple(check_each(partial(check_fraction, f"{where}[{i}]", number) for i, number in entries))


def check_positive(where: str, value: object) -> Fraction:
    """Check an exact rational above 0."""
    number = check_fraction(where, value)
    if number <= 0:
        raise InvalidField(where, f"expected more than 0, got {shown(number)}")
    return number


def check_id(where: str, value: object) -> int | str:
    """Check the id of a job: a whole number or a string."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InvalidField(where, f"expected a whole number or a string, got {shown(value)}")
    return value


def repeated_ids(names: Sequence[int | str]) -> Iterator[InvalidField]:
    """Yield an error for the id of each job that an earlier job has."""
    known = set[str]()
    for i, name in enumerate(names):
        if str(name) in known:
            yield InvalidField(f"jobs[{i}].id", f"expected a unique id, got {shown(name)} again")
        known.add(str(name))


def early_arrivals(arrivals: Sequence[int]) -> Iterator[InvalidField]:
    """Yield an error for each arrival before that of the job before."""
    for i, (before, arrival) in enumerate(pairwise(arrivals), start=1):
        if arrival < before:
            problem = f"expected at least {before}, the arrival of the job before, got {arrival}"
            yield InvalidField(f"jobs[{i}].arrival", problem)


def check_cells(slots: int, inventory: Inventory) -> None:
    """Check that tables of `slots` slots, all servers and resources are not too large."""
    cells = slots * inventory.capacity.size
    if cells > MOST_CELLS:
        raise InvalidField("T", f"expected at most {MOST_CELLS} cells of T x servers x resources, got {cells}")
