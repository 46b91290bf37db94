"""The list of bids: filters, each refused by name when wrong, and pages by sequence."""

import re
from typing import Any, Final

import django_filters
from django import forms
from django.db.models import QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request

from auctions.api.refusals import refuse
from auctions.models import ADMITTED, Bid, BidState
from cluster.operators import is_operator

LARGEST_SLOT: Final = 10**9
_SLOT: Final = re.compile(r"-?[0-9]{1,10}")


class _Slot(django_filters.Filter):  # type: ignore[misc]
    field_class = forms.IntegerField  # `slot_number` has checked it


class BidFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of bids may be narrowed to."""

    state = django_filters.MultipleChoiceFilter(choices=BidState.choices)
    label = django_filters.CharFilter()
    owner = django_filters.CharFilter(field_name="owner__username")
    admitted = django_filters.ChoiceFilter(choices=[("true", "yes"), ("false", "no")], method="by_admission")
    from_slot = _Slot(field_name="arrival_slot", lookup_expr="gte")
    before_slot = _Slot(field_name="arrival_slot", lookup_expr="lt")

    class Meta:
        model = Bid
        fields: list[str] = []

    def by_admission(self, bids: "QuerySet[Bid]", _name: str, value: str) -> "QuerySet[Bid]":
        """Admitted bids, or rejected ones."""
        return bids.filter(state__in=sorted(ADMITTED) if value == "true" else [BidState.REJECTED])


def known_parameters(request: Request, *known: str, repeatable: tuple[str, ...] = ()) -> None:
    """Refuse an unknown query parameter: a misspelt, empty or repeated filter would return too many rows."""
    for name, values in request.query_params.lists():
        if name not in known:
            raise refuse(name[:60], f"unknown parameter; known: {', '.join(known) or 'none'}")
        if "" in values:
            raise refuse(name, "expected a value; leave the parameter out to set no limit")
        if len(values) > 1 and name not in repeatable:
            raise refuse(name, "given more than once")


def slot_number(request: Request, name: str) -> int | None:
    """A query parameter that is a slot number; None if it is not given."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not _SLOT.fullmatch(text) or abs(int(text)) > LARGEST_SLOT:
        raise refuse(name, f"expected a slot number, a whole number from {-LARGEST_SLOT} to {LARGEST_SLOT}")
    return int(text)


def filtered(request: Request, bids: "QuerySet[Bid]") -> "QuerySet[Bid]":
    """Return the bids that match the query."""
    known_parameters(request, *BidFilter.base_filters, "cursor", "page_size", repeatable=("state",))
    for name in ("from_slot", "before_slot"):
        slot_number(request, name)
    if "owner" in request.query_params and not is_operator(request.user):
        raise refuse("owner", "only operators may filter by owner")
    chosen = BidFilter(request.query_params, queryset=bids, request=request)
    if not chosen.is_valid():
        name, problems = next(iter(chosen.errors.items()))
        raise refuse(name, str(problems[0]))
    found: QuerySet[Bid] = chosen.qs
    return found


class BidPages(CursorPagination):
    """Newest first; a page stays where it is when bids come in."""

    ordering = "-sequence"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Return the cursor; a cursor that was never issued is refused."""
        try:
            cursor = super().decode_cursor(request)
        except NotFound:
            raise refuse("cursor", "not a cursor of this list") from None
        if cursor is not None and cursor.position is not None:
            position: Any = cursor.position
            if not (position.isascii() and position.isdigit() and len(position) < 19):
                raise refuse("cursor", "not a cursor of this list")
        return cursor

    def get_page_size(self, request: Request) -> int:
        """Bids on a page."""
        text = request.query_params.get("page_size", str(self.page_size))
        if not (text.isascii() and text.isdigit() and len(text) < 6 and 1 <= int(text) <= self.max_page_size):
            raise refuse("page_size", f"expected 1 to {self.max_page_size}")
        return int(text)
