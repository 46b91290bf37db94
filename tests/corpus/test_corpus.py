"""The comparison of two records finds every difference, and nothing else."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from scheduling.model.types import Json
from tests.corpus import cases, comparing

BEFORE: Json = {"decisions": [{"value": 1.5, "reason": "price", "counter": None}], "completions": [["a", 3]]}


def found(before: Any, after: Any) -> list[str]:
    return list(comparing.differences(before, after))


def test_a_document_is_the_same_as_itself() -> None:
    assert found(BEFORE, BEFORE) == []


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({"a": 1.0}, {"a": 1.0000000000000002}, ".a: 1.0 before, 1.0000000000000002 now"),
        ({"a": 0.0}, {"a": -0.0}, ".a: 0.0 before, -0.0 now"),
        ({"a": 1}, {"a": 1.0}, ".a: 1 before, 1.0 now"),
        ({"a": 1}, {"a": True}, ".a: 1 before, True now"),
        ({"a": None}, {"a": 0}, ".a: None before, 0 now"),
        ({"a": 1}, {}, ".a: missing now"),
        ({}, {"a": 1}, ".a: missing before"),
        ({"a": [1]}, {"a": [1, 2]}, ".a: 1 entries before, 2 now"),
        ({"a": [{"b": "x"}]}, {"a": [{"b": "y"}]}, ".a[0].b: 'x' before, 'y' now"),
        ({"a": [1]}, {"a": {"b": 1}}, ".a: [1] before, {'b': 1} now"),
    ],
)
def test_a_difference_is_found_and_named(before: Any, after: Any, line: str) -> None:
    assert found(before, after) == [line]


def test_new_names_are_put_in_before_documents_are_compared() -> None:
    after = {"decisions": [{"value": 1.5, "cause": "too_expensive", "counter": None}], "completions": [["a", 3]]}
    keys, strings = {"reason": "cause"}, {"price": "too_expensive"}
    assert found(comparing.renamed(BEFORE, keys, strings), after) == []
    assert found(comparing.renamed(BEFORE, keys, {}), after) == [
        ".decisions[0].cause: 'price' before, 'too_expensive' now"
    ]


def test_texts_for_people_and_measured_times_are_left_out() -> None:
    document = {"explanation": "Too expensive.", "value": 1.0, "more": [{"seconds": 0.1, "slot": 2}]}
    assert cases.without_words(document) == {"value": 1.0, "more": [{"slot": 2}]}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = tmp_path / "record.xz"
    first = list(islice(cases.instances(), 3))
    assert comparing.write(record, first) == 3
    assert comparing.read(record) == dict(first)


def test_an_instance_that_is_refused_is_recorded_by_its_exit_status(tmp_path: Path) -> None:
    path = tmp_path / "instance.json"
    path.write_text("{}")
    assert cases.decide(path, ()) == {"status": 2}
