"""Texts that are no JSON: every reader says in words what is expected, and where."""

from typing import Final

import pytest
from django.core.exceptions import ValidationError as WrongForm
from rest_framework.exceptions import ValidationError

from cluster.json_field import JsonFormField
from scheduling.model.json_text import read_json
from web.parsers import read_object

TEXTS: Final = {
    "": "a value at line 1, column 1",
    "{model: 1}": "a name in double quotes at line 1, column 2",
    '{"model": }': "a value at line 1, column 11",
    '{"model" 1}': "a colon after the name at line 1, column 10",
    '{"model": 1,\n "value": 2 "weight": 3}': "a comma, or the end of the object or list at line 2, column 13",
    '{"model": 1} {': "nothing after the end of the document at line 1, column 14",
    '{"model": "x': "a string that ends with a double quote at line 1, column 11",
    '{"model": "x\n"}': "an escape such as \\n in place of a line break or control character at line 1, column 13",
    '{"model": "\\x"}': 'one of "\\/bfnrtu after a backslash at line 1, column 12',
    '{"model": "\\u12"}': "four hexadecimal digits after \\u at line 1, column 13",
    "\ufeff{}": "a document without a byte order mark at line 1, column 1",
}


@pytest.mark.parametrize("text", TEXTS)
def test_every_reader_says_in_words_what_is_expected_and_where(text: str) -> None:
    words = f"expected {TEXTS[text]}"
    with pytest.raises(ValueError) as wrong:
        read_json(text)
    assert str(wrong.value) == words
    with pytest.raises(ValidationError) as refused:
        read_object(text)
    assert refused.value.detail == {"body": [f"expected JSON, got an invalid document: {words}"]}
    if text:
        with pytest.raises(WrongForm) as shown:
            JsonFormField().clean(text)
        assert shown.value.messages == [f"Expected JSON, got an invalid document: {words}"]
