"""Parameters of policies: dataclass fields with a help text, limits and validation."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, field, fields
from functools import partial
from typing import Any

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.json_text import read_json
from scheduling.model.types import Json
from scheduling.model.validation import check_each, check_flag, check_integer, check_list, check_number, shown


def parameter(default: Any, text: str, **limits: Any) -> Any:
    """Declare a parameter of a policy, with the metadata of its form field: `help`, and `choices` or `low` and `high`.

    `absent` is the value in records that were made before the parameter existed.
    """
    return field(default=default, metadata={"help": text, **limits})


def parameters_of(policy: Any) -> Mapping[str, "Field[Any]"]:
    """Return the fields of a policy, or of its class, by the names of the parameters.

    A field whose name would be a word of Python ends with an underscore; the parameter's name does not.
    """
    return {one.name.removesuffix("_"): one for one in fields(policy)}


def check_parameters(policy: Any) -> None:
    """Check every parameter of a frozen dataclass and store the checked value.

    Raises
    ------
    InvalidField
        If values are of the wrong type or out of range; the error names all these parameters.
    """
    known = parameters_of(policy)
    values = check_each(partial(_checked, name, one, getattr(policy, one.name)) for name, one in known.items())
    for one, value in zip(known.values(), values, strict=True):
        object.__setattr__(policy, one.name, value)


def parameters_to_json(policy: Any) -> Json:
    """Return every parameter by name, as plain JSON values."""
    values = {name: getattr(policy, one.name) for name, one in parameters_of(policy).items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def read_pairs(option: str, pairs: Sequence[str]) -> Json:
    """Read parameters from a command line, each `NAME=VALUE`; a value is JSON, else a string.

    Raises
    ------
    InvalidField
        If pairs have no equals sign, or names come twice; `option` is the field, and each such pair is named.

    Examples
    --------
    >>> read_pairs("--set", ["price=fluid", "refit_every=32"])
    {'price': 'fluid', 'refit_every': 32}
    """
    read: Json = {}
    wrong = list[InvalidField]()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            wrong.append(InvalidField(option, f"expected NAME=VALUE, got {pair!r}"))
        elif name in read:
            wrong.append(InvalidField(option, f"expected each name once, got {name} twice"))
        else:
            read[name] = _value_of(text)
    refuse_all(wrong)
    return read


def _value_of(text: str) -> Any:
    try:
        return read_json(text, parse_constant=str)
    except ValueError:
        return text


def _checked(name: str, one: "Field[Any]", value: object) -> object:
    limits = one.metadata
    if "choices" in limits:
        if value not in limits["choices"]:
            raise InvalidField(name, f"expected one of {', '.join(limits['choices'])}, got {shown(value)}")
        return value
    if isinstance(one.default, bool):
        return check_flag(name, value)
    if isinstance(one.default, tuple):
        number = partial(check_number, low=limits["low"], high=limits["high"])
        return tuple(check_each(partial(number, f"{name}[{i}]", row) for i, row in enumerate(check_list(name, value))))
    if isinstance(one.default, int):
        return check_integer(name, value, low=limits["low"], high=limits["high"])
    return check_number(name, value, low=limits["low"], high=limits["high"])
