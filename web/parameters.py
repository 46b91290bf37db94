"""Query parameters: each is refused by name when it is unknown, empty or wrong."""

import re
from typing import Final

from rest_framework.request import Request

from scheduling.model.validation import shown
from web.errors import refuse
from web.fields import UNSTORABLE

LARGEST_SLOT: Final = 10**9
_SLOT: Final = re.compile(r"-?[0-9]{1,10}")


def known_parameters(request: Request, *known: str, repeatable: tuple[str, ...] = ()) -> None:
    """Refuse an unknown query parameter: a misspelt, empty or repeated filter would return too many rows."""
    for name, values in request.query_params.lists():
        if name not in known:
            raise refuse(name[:60], f"unknown parameter; known: {', '.join(known) or 'none'}")
        if "" in values:
            raise refuse(name, "expected a value, got none; leave the parameter out to set no limit")
        if any(UNSTORABLE.search(value) for value in values):
            raise refuse(name, "expected text without NUL and lone surrogates, got one of them")
        if len(values) > 1 and name not in repeatable:
            raise refuse(name, "expected one value, got several")


def slot_number(request: Request, name: str) -> int | None:
    """A query parameter that is a slot number; None if it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not _SLOT.fullmatch(text) or abs(int(text)) > LARGEST_SLOT:
        raise refuse(
            name, f"expected a slot number, a whole number from {-LARGEST_SLOT} to {LARGEST_SLOT}, got {shown(text)}"
        )
    return int(text)


def whole_number(request: Request, name: str, largest: int) -> int | None:
    """A query parameter that is a whole number from 0 to `largest`; None if it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= largest):
        raise refuse(name, f"expected a whole number from 0 to {largest}, got {shown(text)}")
    return int(text)
