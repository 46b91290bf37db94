"""Shapes of REST: what they refuse, in which words, and what they describe."""

from collections.abc import Sequence
from typing import Any

import pytest
from django.http import QueryDict
from rest_framework import serializers

from scheduling.model.errors import InvalidField, OutOfRange
from web.fields import MOST_UNKNOWN, MOST_WRONG_ENTRIES, ByName, Choice, Flag, Integer, Number, OneOf, Rows, Text
from web.schema import Schema


class _Part(Schema):
    name = Text(5)
    share = Number(0, 1)


class _OfServers(ByName):
    def names(self) -> Sequence[str]:
        return ["gpu-1", "gpu-2"]


class _Whole(Schema):
    count = Integer(1, 10)
    kind = Choice(["edge", "cloud"], required=False)
    open = Flag(required=False)
    why = Text(20, blank=True, line=True, required=False)
    seconds = _OfServers(Number(0, 100), least=1, required=False)
    seeds = Rows(Integer(0, 9), least=1, most=3, required=False)
    parts = Rows(_Part(), required=False)
    part = _Part(required=False)


class _Circle(Schema):
    form = Choice(["circle"])
    radius = Number(0, 10)


class _Line(Schema):
    form = Choice(["line"])
    ends = Rows(Number(0, 10), least=2, most=2)


class _Drawing(Schema):
    form = OneOf("form", {"circle": _Circle(), "line": _Line()})


class _Job(Schema):
    """A job whose key `step_s` has a default, and is not for a job that is small."""

    small = Flag()
    step_s = Number(0, 10, required=False)

    def filled_in(self, data: dict[str, Any]) -> dict[str, Any]:
        return {"step_s": 7, **data}

    def known_keys(self, data: dict[str, Any]) -> list[str]:
        return ["small"]

    def wrong_keys(self, data: dict[str, Any]) -> dict[str, str]:
        return {"step_s": "not for a small job"} if data.get("small") and "step_s" in data else {}


def wrong(body: object, shape: type[Schema] = _Whole) -> dict[str, str]:
    """The fields that are refused, with their messages."""
    with pytest.raises(InvalidField) as found:
        shape.read(body)
    return {one.field: one.problem for one in found.value.all_wrong}


def test_a_body_is_read() -> None:
    body = {
        "count": 3,
        "kind": "edge",
        "open": False,
        "why": "",
        "seconds": {"gpu-1": 2},
        "seeds": [1, 2],
        "parts": [{"name": "a", "share": 0.5}],
        "part": {"name": "b", "share": 1},
    }
    assert _Whole.read(body) == body


def test_every_wrong_missing_and_unknown_field_is_named_at_once() -> None:
    body = {
        "kind": "fog",
        "open": 1,
        "why": "two\nlines",
        "seconds": {"gpu-1": "2", "gpu-9": 1},
        "seeds": [1, True],
        "parts": [{"name": "a", "share": 0.5}, {"name": "", "share": 2, "more": 1}],
        "part": 7,
        "other": 1,
    }
    assert wrong(body) == {
        "count": "missing",
        "kind": "expected edge or cloud, got 'fog'",
        "open": "expected true or false, got 1",
        "why": "expected one line without control characters, got 'two\\nlines'",
        "seconds.gpu-1": "expected a number, got the string '2'",
        "seconds.gpu-9": "expected gpu-1 or gpu-2",
        "seeds[1]": "expected a whole number, got true",
        "parts[1].name": "expected a string of 1 to 5 characters, got ''",
        "parts[1].share": "expected 0 to 1, got 2",
        "parts[1].more": "unknown; known: name, share",
        "part": "expected an object, got 7",
        "other": "unknown; known: count, kind, open, part, parts, seconds, seeds, why",
    }


@pytest.mark.parametrize("inside", ["", "seconds."])
def test_of_very_many_unknown_keys_some_are_named_and_the_others_counted(inside: str) -> None:
    keys = {f"k{i}": 1 for i in range(MOST_UNKNOWN + 30)}
    found = wrong({"count": 1, "seconds": keys} if inside else {"count": 1, **keys})
    assert list(found) == [f"{inside}k{i}" for i in range(MOST_UNKNOWN)]
    messages = list(found.values())
    assert len(set(messages[:-1])) == 1
    assert messages[-1] == f"{messages[0]}; the same of 30 more keys"


@pytest.mark.parametrize("body", [None, [], "text", 3])
def test_what_is_no_object_is_refused(body: object) -> None:
    assert next(iter(wrong(body).values())).startswith("expected an object, got ")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("count", 1.0, "expected a whole number, got 1.0"),
        ("count", "1", "expected a whole number, got '1'"),
        ("count", 11, "expected 1 to 10, got 11"),
        ("count", None, "expected a value, got null"),
        ("kind", ["edge"], "expected edge or cloud, got ['edge']"),
        ("why", 5, "expected a line of at most 20 characters, got 5"),
        ("why", "x" * 21, "expected a line of at most 20 characters, got 'xxxxxxxxxxxxxxxxxxxxx'"),
        ("seconds", {}, "expected at least 1 by name, got {}"),
        ("seconds", [1], "expected an object, got [1]"),
        ("seeds", {}, "expected a list, got {}"),
        ("seeds", [], "expected 1 to 3 entries, got 0"),
        ("seeds", [1, 2, 3, 4], "expected 1 to 3 entries, got 4"),
        ("parts", 1, "expected a list, got 1"),
    ],
)
def test_a_wrong_value_is_refused_in_words(field: str, value: object, problem: str) -> None:
    assert wrong({"count": 1, field: value}) == {field: problem}


@pytest.mark.parametrize(
    ("drawn", "problems"),
    [
        (3, {"form": "expected an object with `form`: circle or line, got 3"}),
        ({}, {"form.form": "expected circle or line, got nothing"}),
        ({"form": ["line"]}, {"form.form": "expected circle or line, got ['line']"}),
        ({"form": "circle", "ends": 1}, {"form.radius": "missing", "form.ends": "unknown; known: form, radius"}),
        ({"form": "line", "ends": [1]}, {"form.ends": "expected 2 entries, got 1"}),
    ],
)
def test_one_of_several_shapes_is_checked_by_the_shape_that_it_names(drawn: Any, problems: dict[str, str]) -> None:
    assert wrong({"form": drawn}, _Drawing) == problems
    assert _Drawing.read({"form": {"form": "line", "ends": [0, 1]}}) == {"form": {"form": "line", "ends": [0, 1]}}


def test_keys_that_depend_on_others_are_filled_in_or_refused() -> None:
    assert _Job.read({"small": True}) == {"small": True, "step_s": 7}
    assert wrong({"small": True, "step_s": 30, "other": 1}, _Job) == {
        "step_s": "not for a small job",
        "other": "unknown; known: small",
    }


def test_of_very_many_wrong_entries_the_first_ones_are_named() -> None:
    class Listed(Schema):
        pairs = Rows(Rows(Integer(0, 9), least=2, most=2))

    with pytest.raises(InvalidField) as caught:
        Listed.read({"pairs": [[1, 2], *[[1, 10]] * 100_000]})
    named = [one.field for one in caught.value.all_wrong]
    assert named == [f"pairs[{i}][1]" for i in range(1, MOST_WRONG_ENTRIES + 1)]


def test_a_number_that_is_out_of_range_keeps_its_limit() -> None:
    with pytest.raises(OutOfRange) as found:
        _Whole.read({"count": 1, "parts": [{"name": "a", "share": 2}]})
    assert (found.value.field, found.value.limit, found.value.above) == ("parts[0].share", 1, True)


@pytest.mark.parametrize(("sent", "read"), [("  a b ", "a b"), ("   ", "")])
def test_a_line_loses_the_spaces_at_its_ends(sent: str, read: str) -> None:
    assert _Whole.read({"count": 1, "why": sent})["why"] == read


def test_a_form_without_fields_is_an_empty_object() -> None:
    assert wrong(QueryDict(""))["count"] == "missing"


def test_a_row_is_written() -> None:
    class Row(Schema):
        count = serializers.IntegerField(source="number")

    class Thing:
        number = 4

    assert Row.write(Thing()) == {"count": 4}


class _Within(Schema):
    count = Integer(1, 10)

    def validate(self, attrs: Any) -> Any:
        """Check another body by the same shape meanwhile, and note the context of this one."""
        inner = self.context.get("inner")
        return {
            **attrs,
            "limit": self.context["limit"],
            "inner": None if inner is None else _Within.read(inner, limit=2),
            "after": self.context["limit"],
        }


def test_a_shape_that_is_used_again_knows_nothing_of_the_body_before() -> None:
    for limit in (1, 3):
        with pytest.raises(InvalidField, match="count"):
            _Within.read({"count": 99}, limit=limit)
        found = _Within.read({"count": 5}, limit=limit, inner={"count": 6})
        assert (found["count"], found["limit"], found["after"]) == (5, limit, limit)
        assert found["inner"] == {"count": 6, "limit": 2, "inner": None, "after": 2}
    assert _Within.read({"count": 7}, limit=4) == {"count": 7, "limit": 4, "inner": None, "after": 4}
