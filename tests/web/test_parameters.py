"""Query parameters are checked as they are described."""

import pytest
from django.test import RequestFactory
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from web.openapi import query
from web.parameters import whole_number, wrong_parameters

DESCRIBED = [
    query("count", {"type": "integer", "minimum": -5, "maximum": 10**6}, "A whole number."),
    query("ratio", {"type": "number", "minimum": 0, "maximum": 1.5}, "A number."),
    query("day", {"type": "string", "format": "date"}, "A day."),
    query("kind", str, "One of these.", enum=["a", "b", "c"], many=True),
    query("text", str, "Any text."),
]


def request(asked: str) -> Request:
    return Request(RequestFactory().get(f"/?{asked}"))


def wrong(asked: str, described: list[OpenApiParameter] = DESCRIBED) -> dict[str, str]:
    return {name: messages[0] for name, messages in wrong_parameters(request(asked), described).items()}


@pytest.mark.parametrize(
    "asked",
    ["", "count=-5", "count=1000000", "ratio=.5", "ratio=15e-1", "day=2026-11-25", "kind=a&kind=b", "text=%25&count=0"],
)
def test_what_is_described_is_taken(asked: str) -> None:
    assert wrong(asked) == {}


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ("count=-6", "count", "expected a whole number from -5 to 1,000,000, got '-6'"),
        ("count=1000001", "count", "expected a whole number from -5 to 1,000,000, got '1000001'"),
        *((f"count={text}", "count", "expected a whole number from") for text in ("1.0", "1e3", "%D9%A1", "+1", "1_0")),
        (f"count={'9' * 5000}", "count", "expected a whole number from"),
        ("ratio=1.6", "ratio", "expected a number from 0 to 1.5, got '1.6'"),
        *((f"ratio={text}", "ratio", "expected a number from 0 to 1.5") for text in ("nan", "inf", "1_0", "e")),
        *(
            (f"day={text}", "day", "expected a day such as 2026-11-25")
            for text in ("x", "2026-02-30", "0001-01-01", "2026-W48-4")
        ),
        ("kind=a&kind=x", "kind", "expected a, b or c, got 'x'"),
        ("text=a&text=b", "text", "expected one value, got several"),
        ("text=", "text", "expected a value, got none; leave the parameter out to set no limit"),
        ("text=%00", "text", "expected text without NUL and lone surrogates, got one of them"),
        ("txt=a", "txt", "unknown parameter; known: count, ratio, day, kind, text"),
    ],
)
def test_what_is_wrong_is_named(asked: str, field: str, words: str) -> None:
    (found,) = wrong(asked).items()
    assert found[0] == field
    assert found[1].startswith(words)


def test_all_that_are_wrong_are_named_at_once() -> None:
    found = wrong("count=x&ratio=2&day=x&kind=x&text=&txt=1&more=1")
    assert set(found) == {"count", "ratio", "day", "kind", "text", "txt", "more"}
    assert wrong("count=1", []) == {"count": "unknown parameter; known: none"}


def test_a_whole_number_is_read() -> None:
    assert whole_number(request("count=-05"), "count") == -5
    assert whole_number(request(""), "count") is None
