"""A name that an object has twice, where JSON is read: in files, in forms and in bodies of requests."""

import pytest
from rest_framework.exceptions import ValidationError

from scheduling.instances.fields import parse_document
from scheduling.model.errors import InvalidField
from scheduling.model.json_text import read_json
from web.parsers import read_object

TEXTS = {
    "a": '{"a": 1, "b": 2, "a": 3}',
    "b[1].a": '{"b": [0, {"a": 1, "a": {}}]}',
}
"""Documents in which `a` is there twice, by its place."""


@pytest.mark.parametrize("place", TEXTS)
def test_every_reader_names_it_in_the_same_words(place: str) -> None:
    words = "expected each name once in an object, got 'a' twice"
    with pytest.raises(ValueError, match=f"^{words}$"):
        read_json(TEXTS[place])
    with pytest.raises(InvalidField, match=f"{words}$"):
        parse_document(TEXTS[place])
    with pytest.raises(ValidationError) as refused:
        read_object(TEXTS[place])
    assert refused.value.detail == {place: [words]}


def test_a_long_name_is_cut_in_the_error() -> None:
    with pytest.raises(ValueError, match=r"got 'xxxx.*\.\.\. twice$"):
        read_json(f'{{"{"x" * 100}": 1, "{"x" * 100}": 2}}')
