"""A form for a policy's parameters, made from the fields of its dataclass."""

from typing import Any

from django import forms

from scheduling.model.errors import InvalidField
from scheduling.model.parameters import parameters_of
from scheduling.model.types import Json
from scheduling.model.validation import every_digit, shown
from scheduling.registry import POLICIES, make_policy


class NumbersField(forms.CharField):
    """Numbers separated by commas or spaces; empty for none."""

    def to_python(self, value: Any) -> Any:
        """The numbers as a list."""
        text = super().to_python(value) or ""
        try:
            return [float(part) for part in text.replace(",", " ").split()]
        except ValueError:
            raise forms.ValidationError(f"Expected numbers separated by commas, got {shown(text)}.") from None

    def prepare_value(self, value: Any) -> Any:
        """The list as text."""
        return ", ".join(map(every_digit, value)) if isinstance(value, (list, tuple)) else value


class PolicyForm(forms.Form):
    """The parameters of one policy; valid only if the policy itself accepts them."""

    def __init__(self, *args: Any, policy: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.policy = policy
        for name, parameter in parameters_of(POLICIES[policy]).items():
            self.fields[name] = _field(parameter.type, dict(parameter.metadata))

    def clean(self) -> Json:
        """Let the policy check its parameters; its error is shown at the field that it names."""
        cleaned = super().clean() or {}
        if not self.errors:
            try:
                make_policy(self.policy, cleaned)
            except InvalidField as error:
                self.refuse(error)
        return cleaned

    def refuse(self, error: InvalidField) -> None:
        """Show an error, and those beside it, each at the field that it names, or above all fields."""
        for one in (error, *error.also):
            name, _, _ = one.field.partition("[")
            self.add_error(name if name in self.fields else None, str(one))


def _field(kind: object, metadata: dict[str, Any]) -> forms.Field:
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
    return NumbersField(required=False, help_text=text)
