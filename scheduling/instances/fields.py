"""Checks of fields that several families of instance files have, and the document itself."""

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import partial

from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.json_text import read_json
from scheduling.model.validation import check_each, check_fraction, check_integer, check_list, shown

MB_TO_MBIT = 8
MOST_SLOTS = 10_000
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


def check_integers(where: str, row: object, length: int) -> list[int]:
    """Check a list of `length` whole numbers of at least 0."""
    entries = enumerate(check_list(where, row, length=length))
    return check_each(partial(check_integer, f"{where}[{i}]", number) for i, number in entries)


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


def check_new_id(where: str, name: int | str, known: Iterable[int | str]) -> None:
    """Check that no earlier job has this id."""
    if str(name) in {str(other) for other in known}:
        raise InvalidField(where, f"expected a unique id, got {shown(name)} again")


def check_cells(slots: int, inventory: Inventory) -> None:
    """Check that tables of `slots` slots, all servers and resources are not too large."""
    cells = slots * inventory.capacity.size
    if cells > MOST_CELLS:
        raise InvalidField("T", f"expected at most {MOST_CELLS} cells of T x servers x resources, got {cells}")
