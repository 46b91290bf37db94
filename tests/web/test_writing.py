"""Answers: what is read of a row, and the JSON of it."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from rest_framework import serializers

from web.fields import Number, Rows, Text
from web.pagination import Page
from web.writing import Answer, Columns


class _Place(Answer):
    server = Text(9)
    slots = serializers.IntegerField(source="*")

    @staticmethod
    def slots_of(row: dict[str, int]) -> int:
        return row["end"] - row["start"]


class _Written(Answer):
    number = serializers.IntegerField(source="count")
    owner = serializers.CharField(source="owner.name", allow_null=True)
    at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)
    place = _Place(allow_null=True)
    places = _Place(many=True)
    shares = Rows(Number(0, 1))
    table = Columns(child=_Place())


class _Owner:
    name = "Ann"


class _Row:
    count = 4
    owner: _Owner | None = _Owner()
    at = datetime(2026, 1, 2, tzinfo=UTC)
    ended_at = None
    place: dict[str, Any] | None = {"server": "a", "start": 2, "end": 5}
    places = ({"server": "a", "start": 2, "end": 5}, {"server": "b", "start": 0, "end": 1})
    shares = (0.5, 1)
    table: ClassVar[dict[str, list[object]]] = {"slots": [3, 4], "server": ["a", "b"]}


def test_a_row_is_written() -> None:
    assert _Written.write(_Row()) == {
        "number": 4,
        "owner": "Ann",
        "at": "2026-01-02T00:00:00+00:00",
        "ended_at": None,
        "place": {"server": "a", "slots": 3},
        "places": [{"server": "a", "slots": 3}, {"server": "b", "slots": 1}],
        "shares": (0.5, 1),
        "table": [{"server": "a", "slots": 3}, {"server": "b", "slots": 4}],
    }


def test_nothing_below_a_missing_part_of_a_row_is_read() -> None:
    row = _Row()
    row.owner = row.place = None
    written = _Written.write(row)
    assert (written["owner"], written["place"]) == (None, None)


def test_many_rows_are_written_with_the_context() -> None:
    class Share(serializers.FloatField):
        def written(self, value: float, context: dict[str, float]) -> float:
            return value / context["whole"]

    class Row(Answer):
        share = Share()

    class Page(Answer):
        rows = Row(many=True)

    assert Page.write({"rows": [{"share": 1}, {"share": 2}]}, whole=4) == {"rows": [{"share": 0.25}, {"share": 0.5}]}


def test_a_row_of_a_page_is_written_as_it_is_alone() -> None:
    class Rows(Page):
        results = _Written(many=True)

    row = _Row()
    page = Rows.write({"next": None, "previous": None, "results": [row]}, whole=4)
    assert page == {"next": None, "previous": None, "results": [_Written.write(row, whole=4)]}
