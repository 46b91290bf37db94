import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.utility import FORMS, Linear, Sigmoid, Step, Utility, utility_from_json

DOCUMENTS: list[Json] = [
    {"type": "constant", "v": 7},
    {"type": "sigmoid", "g1": 100, "g2": 0.02, "g3": 0},
    {"type": "step", "v": 9, "deadline": 4},
    {"type": "linear", "c": 12, "b": 1.5},
    {"type": "table", "values": [9, 4, 4, 1]},
    {"type": "inverse", "a": 2, "work": 10, "T": 6},
    {"type": "piecewise_linear", "value": 10, "points": [[0, 1], [4, 0.5], [8, 0]]},
]
WORTH: dict[str, list[float]] = {
    "constant": [7, 7, 7],
    "sigmoid": [50, 100 / (1 + math.exp(0.02)), 100 / (1 + math.exp(0.04))],
    "step": [9, 9, 9, 9, 9, 0],
    "linear": [12, 10.5, 9, 7.5, 6, 4.5, 3, 1.5, 0, 0],
    "table": [9, 4, 4, 1, 1, 1],
    "inverse": [100, 100, 40, 20, 10, 4, 0, 0],
    "piecewise_linear": [10, 8.75, 7.5, 6.25, 5, 3.75, 2.5, 1.25, 0, 0],
}
money = st.floats(0, 1e9)
rates = st.floats(0, 1e3)
fractions = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(lambda xs: sorted(xs, reverse=True))
documents = st.one_of(
    st.builds(lambda v: {"type": "constant", "v": v}, money),
    st.builds(lambda g1, g2, g3: {"type": "sigmoid", "g1": g1, "g2": g2, "g3": g3}, money, rates, st.floats(0, 1e6)),
    st.builds(lambda v, d: {"type": "step", "v": v, "deadline": d}, money, rates),
    st.builds(lambda c, b: {"type": "linear", "c": c, "b": b}, money, rates),
    st.builds(lambda a, w, t: {"type": "inverse", "a": a, "work": w, "T": t}, rates, rates, rates),
    fractions.map(lambda ys: {"type": "table", "values": ys}),
    st.builds(
        lambda v, ys: {"type": "piecewise_linear", "value": v, "points": [[3 * i, y] for i, y in enumerate(ys)]},
        money,
        fractions,
    ),
)


def test_every_form_has_an_example_worked_by_hand() -> None:
    assert {document["type"] for document in DOCUMENTS} == set(FORMS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d["type"]))
def test_worth_is_the_formula(document: Json) -> None:
    expected = WORTH[document["type"]]
    assert utility_from_json(document).curve(len(expected)) == pytest.approx(expected)


@given(documents)
def test_worth_never_rises_and_is_finite(document: Json) -> None:
    curve = utility_from_json(document).curve(40)
    assert np.isfinite(curve).all()
    assert (curve >= 0).all()
    assert (np.diff(curve) <= 1e-12 * curve[:-1]).all()


@given(documents, st.floats(0, 100), st.integers(0, 60))
def test_scaling_multiplies_the_whole_curve(document: Json, factor: float, elapsed: int) -> None:
    utility = utility_from_json(document)
    scaled = utility.scaled(factor)
    assert scaled.value == pytest.approx(utility.value * factor)
    assert scaled.at(elapsed) == pytest.approx(
        utility.at(elapsed) * factor, rel=1e-9, abs=1e-6 * utility.value + 1e-300
    )


@given(documents)
def test_its_document_reads_back_the_same(document: Json) -> None:
    utility = utility_from_json(document)
    assert utility_from_json(utility.to_json()) == utility


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ("x", "utility"),
        ({}, "utility.type"),
        ({"type": "gaussian"}, "utility.type"),
        ({"type": ["constant"]}, "utility.type"),
        ({"type": "constant"}, "utility.v"),
        ({"type": "constant", "v": True}, "utility.v"),
        ({"type": "constant", "v": float("nan")}, "utility.v"),
        ({"type": "constant", "v": -1}, "utility.v"),
        ({"type": "constant", "v": 1e300}, "utility.v"),
        ({"type": "constant", "v": 10**400}, "utility.v"),
        ({"type": "constant", "v": 1, "w": 2}, "utility.w"),
        ({"type": "sigmoid", "g1": 1, "g2": -0.1, "g3": 0}, "utility.g2"),
        ({"type": "linear", "c": 1, "b": -1}, "utility.b"),
        ({"type": "table", "values": []}, "utility.values"),
        ({"type": "table", "values": [1, 2]}, "utility.values[1]"),
        ({"type": "inverse", "a": 1e9, "work": 1e9, "T": 9}, "utility.a"),
        ({"type": "piecewise_linear", "value": 1, "points": [[0, 1], [0, 0]]}, "utility.points[1][0]"),
        ({"type": "piecewise_linear", "value": 1, "points": [[0, 0.5], [1, 0.6]]}, "utility.points[1][1]"),
        ({"type": "piecewise_linear", "value": 1, "points": [[0, 1.5]]}, "utility.points[0][1]"),
        ({"type": "piecewise_linear", "value": 1, "points": [[0]]}, "utility.points[0]"),
    ],
)
def test_nonsense_is_refused_by_the_name_of_the_field(document: Json, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        utility_from_json(document)
    assert caught.value.field == field


@pytest.mark.parametrize("steepness", [0.0, 0.02, 5.0, 1e6])
@pytest.mark.parametrize("target", [0.0, 7.5, 1e9])
def test_the_curve_of_a_sigmoid_is_its_worth_in_every_slot_to_the_last_bit(steepness: float, target: float) -> None:
    for amplitude in (0.0, 1e-3, 123.4):
        utility = Sigmoid(amplitude, steepness, target)
        for slots in (0, 1, 900):
            assert utility.curve(slots).tolist() == [utility.at(elapsed) for elapsed in range(slots)]


@pytest.mark.parametrize("whole", [Step(7.3, 4.5), Step(0.1, 0), Linear(9.7, 0.31), Linear(1e12, 1e11), Linear(3, 0)])
def test_a_curve_computed_at_once_is_the_worth_in_every_slot_to_the_last_bit(whole: Utility) -> None:
    for utility in (whole, whole.scaled(1 / 3)):
        for slots in (0, 1, 900):
            assert utility.curve(slots).tolist() == [utility.at(elapsed) for elapsed in range(slots)]


pieces = st.dictionaries(st.floats(0, 60), st.floats(0, 1), min_size=1, max_size=8).map(
    lambda found: {
        "type": "piecewise_linear",
        "value": 7.3,
        "points": [*zip(sorted(found), sorted(found.values(), reverse=True), strict=True)],
    }
)


@given(documents | pieces, st.integers(0, 80), st.floats(0, 1e15))
def test_the_curve_of_every_form_is_its_worth_in_every_slot_to_the_last_bit(
    document: Json, slots: int, factor: float
) -> None:
    for utility in (whole := utility_from_json(document), whole.scaled(factor)):
        slot_by_slot = np.array([utility.at(elapsed) for elapsed in range(slots)], dtype=np.float64)
        assert utility.curve(slots).tobytes() == slot_by_slot.tobytes()


def test_an_error_names_the_first_fifty_points_that_are_out_of_order() -> None:
    with pytest.raises(InvalidField) as caught:
        utility_from_json({"type": "piecewise_linear", "value": 1, "points": [[9, 1]] * 1000})
    named = [one.field for one in caught.value.all_wrong]
    assert named == [f"utility.points[{i}][0]" for i in range(1, 51)]


@pytest.mark.parametrize("wrong", [True, "0.5x", math.nan, math.inf, -1.0, 2.0, None, [0.5], 10**400])
@pytest.mark.parametrize("place", [0, 1])
def test_points_that_are_checked_at_once_are_refused_and_read_as_those_that_are_checked_by_name(
    wrong: Any, place: int
) -> None:
    points: list[list[Any]] = [[0, 1], [1, 0.5], [2.5, 0]]
    as_texts = [[str(elapsed), str(fraction)] for elapsed, fraction in points]
    read = [utility_from_json({"type": "piecewise_linear", "value": 1, "points": one}) for one in (points, as_texts)]
    assert repr(read[0]) == repr(read[1])
    points[1][place] = 10**18 if place == 0 and wrong == 2.0 else wrong
    with pytest.raises(InvalidField) as caught:
        utility_from_json({"type": "piecewise_linear", "value": 1, "points": points})
    assert caught.value.field == f"utility.points[1][{place}]"
