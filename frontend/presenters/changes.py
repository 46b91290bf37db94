"""The record of who changed what, as its page and its CSV file show it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from auditlog.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import BooleanField, Q, QuerySet

from accounts.models import Role
from accounts.rights import rights_of
from web.parameters import day_of

FILTERS: Final = ("who", "what", "cluster", "since", "until")
HEADER: Final = ("time", "who", "address", "via", "request", "what", "which", "field", "before", "after")
_IN_WORDS: Final = {"True": "yes", "False": "no"}


@dataclass(frozen=True)
class Change:
    """One entry of the record."""

    at: datetime
    who: str
    """Name of the user; empty if no user made the change."""
    address: str
    via: str
    """The interface, or the command without a request."""
    request: str
    what: str
    which: str
    """The row that was changed."""
    fields: list[tuple[str, str, str]]
    """Name, value before and value after of each field; one that is empty before and after is left out."""


def visible_entries(viewer: User) -> "QuerySet[LogEntry] | None":
    """Return the entries that a viewer may read, newest first; None for a viewer who may read none.

    Operators read all, operators of clusters those of their clusters, and administrators of a team those of the team.
    """
    rights = rights_of(viewer)
    rows: QuerySet[LogEntry] = LogEntry.objects.order_by("-pk")
    if rights.operates_all:
        return rows
    if not rights.operated and rights.role is not Role.ADMINISTRATOR:
        return None
    of_team = Q(additional_data__team=rights.team) if rights.role is Role.ADMINISTRATOR else Q(pk__in=[])
    return rows.filter(of_team | Q(additional_data__cluster__in=sorted(rights.operated)))


def entries(rows: "QuerySet[LogEntry]", chosen: dict[str, str]) -> "QuerySet[LogEntry]":
    """Return those of the entries that these filters let pass; an invalid date lets nothing pass."""
    wanted = Q()
    if chosen["who"]:
        wanted &= Q(additional_data__who__iexact=chosen["who"])
    if chosen["what"]:
        wanted &= Q(additional_data__what__icontains=chosen["what"])
    if chosen["cluster"]:
        wanted &= Q(additional_data__cluster=chosen["cluster"])
    for name, lookup, days in (("since", "gte", 0), ("until", "lt", 1)):
        if chosen[name]:
            day = _day(chosen[name])
            if day is None:
                return rows.none()
            wanted &= Q(**{f"timestamp__{lookup}": day + timedelta(days=days)})
    return rows.filter(wanted)


def change(entry: LogEntry, *, with_address: bool) -> Change:
    """Return an entry as it is shown; addresses of users are for operators of all clusters."""
    data = entry.additional_data or {}
    truths = _truth_fields(entry)
    fields = [_field(name, pair, is_truth=name in truths) for name, pair in (entry.changes or {}).items()]
    return Change(
        at=entry.timestamp,
        who=data.get("who", ""),
        address=(entry.remote_addr or "") if with_address else "",
        via=data.get("via", ""),
        request=entry.cid or "",
        what=data.get("what", ""),
        which=entry.object_repr,
        fields=[field for field in fields if field[1] or field[2]],
    )


def csv_rows(rows: Iterable[LogEntry], *, with_address: bool) -> list[tuple[Any, ...]]:
    """Return a row for each field of each entry."""
    return [
        (one.at.isoformat(), one.who, one.address, one.via, one.request, one.what, one.which, *field)
        for one in (change(row, with_address=with_address) for row in rows)
        for field in one.fields
    ]


def _truth_fields(entry: LogEntry) -> set[str]:
    """Return the names of the fields of an entry's row that hold truth values; none of a kind of rows that is gone."""
    model = entry.content_type.model_class()
    return set() if model is None else {one.name for one in model._meta.fields if isinstance(one, BooleanField)}


def _field(name: str, pair: Any, *, is_truth: bool) -> tuple[str, str, str]:
    if isinstance(pair, dict):  # members of a set that were added or removed
        members = ", ".join(pair.get("objects", ()))
        return (name, "", members) if pair.get("operation") == "add" else (name, members, "")
    before, after = ("" if value in (None, "None") else str(value) for value in pair)
    if is_truth:  # the record has them as Python writes them
        before, after = (_IN_WORDS.get(value, value) for value in (before, after))
    return name, before, after


def _day(text: str) -> datetime | None:
    try:
        return datetime.combine(day_of(text), time.min, UTC)
    except ValueError:
        return None
