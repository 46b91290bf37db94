"""Parameters of policies: dataclass fields with a help text, limits and validation."""

from dataclasses import field, fields
from typing import Any

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import check_integer, check_list, check_number, shown


def parameter(default: Any, text: str, **limits: Any) -> Any:
    """Declare a parameter of a policy, with the metadata of its form field: `help`, and `choices` or `low` and
    `high`."""
    return field(default=default, metadata={"help": text, **limits})


def check_parameters(policy: Any) -> None:
    """Check every parameter of a frozen dataclass and store the checked value; raises InvalidField with its name."""
    for one in fields(policy):
        object.__setattr__(policy, one.name, _checked(one, getattr(policy, one.name)))


def parameters_to_json(policy: Any) -> Json:
    """Return every parameter by name, as plain JSON values."""
    values = {one.name: getattr(policy, one.name) for one in fields(policy)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _checked(one: Any, value: object) -> object:
    limits, name = one.metadata, one.name
    if "choices" in limits:
        if value not in limits["choices"]:
            raise InvalidField(name, f"expected one of {', '.join(limits['choices'])}, got {shown(value)}")
        return value
    if isinstance(one.default, bool):
        if not isinstance(value, bool):
            raise InvalidField(name, f"expected true or false, got {shown(value)}")
        return value
    if isinstance(one.default, tuple):
        rows = enumerate(check_list(name, value))
        return tuple(check_number(f"{name}[{i}]", row, low=limits["low"], high=limits["high"]) for i, row in rows)
    if isinstance(one.default, int):
        return check_integer(name, value, low=limits["low"], high=limits["high"])
    return check_number(name, value, low=limits["low"], high=limits["high"])
