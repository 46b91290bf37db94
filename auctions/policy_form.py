"""A form for a policy's parameters, made from the fields of its dataclass."""

from functools import partial
from typing import Any

from django import forms

from scheduling.model.errors import InvalidField
from scheduling.model.parameters import parameters_of
from scheduling.model.types import Json
from scheduling.model.validation import check_each, check_number, every_digit, shown
from scheduling.registry import POLICIES, make_policy


class NumbersField(forms.CharField):
    """Numbers from `low` to `high`, separated by commas or spaces; empty for none."""

    def __init__(self, name: str, low: float, high: float, **more: Any) -> None:
        super().__init__(**more)
        self.name, self.low, self.high = name, low, high

    def to_python(self, value: Any) -> Any:
        """The numbers as a list."""
        parts = (super().to_python(value) or "").replace(",", " ").split()
        try:
            return check_each(partial(self._number, f"{self.name}[{i}]", part) for i, part in enumerate(parts))
        except InvalidField as error:
            raise forms.ValidationError([str(one) for one in error.all_wrong]) from None

    def _number(self, where: str, part: str) -> float:
        try:
            number = float(part)
        except ValueError:
            raise InvalidField(where, f"expected numbers separated by commas, got {shown(part)}") from None
        return check_number(where, number, low=self.low, high=self.high)

    def prepare_value(self, value: Any) -> Any:
        """The list as text."""
        return ", ".join(map(every_digit, value)) if isinstance(value, (list, tuple)) else value


class PolicyForm(forms.Form):
    """The parameters of one policy; valid only if the policy itself accepts them."""

    def __init__(self, *args: Any, policy: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.policy = policy
        for name, parameter in parameters_of(POLICIES[policy]).items():
            self.fields[name] = _field(name, parameter.type, dict(parameter.metadata))

    def clean(self) -> Json:
        """Let the policy check that its parameters fit one another, once each is right in itself."""
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                make_policy(self.policy, cleaned)
            except InvalidField as error:
                self.refuse(error)
        return cleaned

    def refuse(self, error: InvalidField) -> None:
        """Show an error, and those beside it, each at the field that it names, or above all fields."""
        for one in error.all_wrong:
            name, _, _ = one.field.partition("[")
            self.add_error(name if name in self.fields else None, str(one))


def _field(name: str, kind: object, metadata: dict[str, Any]) -> forms.Field:
    text = metadata.get("help", "")
    if "choices" in metadata:
        return forms.ChoiceField(choices=[(choice, choice) for choice in metadata["choices"]], help_text=text)
    if kind is bool:
        return forms.BooleanField(required=False, help_text=text)
    low, high = metadata.get("low"), metadata.get("high")
    if kind is int:
        return forms.IntegerField(min_value=low, max_value=high, help_text=text)
    if kind is float:
        return forms.FloatField(min_value=low, max_value=high, help_text=text)
    if kind is str:
        return forms.CharField(help_text=text)
    return NumbersField(name, metadata["low"], metadata["high"], required=False, help_text=text)
