"""Answers with arrays are the same documents that lists give."""

import json

import numpy as np
import pytest
from rest_framework.renderers import JSONRenderer

from web.arrays import ArraysRenderer, in_rows

FLOATS = np.random.default_rng(3).lognormal(sigma=30.0, size=(5, 4, 3))
DOCUMENT = {"name": "a", "prices": in_rows(FLOATS[:, [2, 0]]), "closed": np.array([True, False]), "slots": [1, 2]}


@pytest.mark.parametrize("accept", ["application/json", "application/json; indent=2"])
def test_an_array_is_written_as_its_list(accept: str) -> None:
    written = ArraysRenderer().render(DOCUMENT, accept, {})
    assert json.loads(written) == {**DOCUMENT, "prices": FLOATS[:, [2, 0]].tolist(), "closed": [True, False]}
    assert (b"\n" in written) == ("indent" in accept)


def test_what_has_no_array_is_written_as_usual() -> None:
    for document in (None, {"detail": "no\u2028", "errors": []}, [1.5]):
        assert ArraysRenderer().render(document, "application/json", {}) == JSONRenderer().render(document)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_an_array_that_json_cannot_express_is_an_error(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ArraysRenderer().render({"prices": np.array([1.0, number])}, "application/json", {})
