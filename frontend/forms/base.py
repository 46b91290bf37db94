"""Common parts of the forms of pages: descriptions for screen readers, and errors found when a request is read."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.forms.boundfield import BoundField

from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown
from web.errors import ServiceError
from web.fields import wrong_line

Stored = TypeVar("Stored")


@dataclass(frozen=True)
class GoesWith:
    """The values of a choice with which a field is shown, without spaces in them."""

    choice: str
    values: Sequence[str]


class DescribedField(BoundField):
    """A field whose input names the elements of `_field.html` that describe it: its help text and its errors."""

    @property
    def aria_describedby(self) -> str:
        """Ids of elements; that of the errors is always there, since a live quote fills it in."""
        return " ".join(f"{kind}-{self.html_name}" for kind in (["help"] if self.help_text else []) + ["error"])

    @property
    def goes_with(self) -> GoesWith | None:
        """The choice that shows or hides the field; None if it is always shown."""
        found: GoesWith | None = getattr(self.form, "goes_with", {}).get(self.name)
        return found

    def build_widget_attrs(self, attrs: dict[str, Any], widget: Any = None) -> dict[str, Any]:
        """Return the attributes of the input; browsers do not fill it in, unless the field says with what."""
        own = {} if "autocomplete" in self.field.widget.attrs else {"autocomplete": "off"}
        return {**own, **super().build_widget_attrs(attrs, widget)}


class TextFileField(forms.FileField):
    """A text file in UTF-8 of at most `settings.PLAN_BODY_LIMIT_BYTES`; its value is the text."""

    def to_python(self, data: Any) -> Any:
        """Return the text; None without a file."""
        file = super().to_python(data)
        if file is None:
            return None
        if file.size > settings.PLAN_BODY_LIMIT_BYTES:
            raise forms.ValidationError(f"expected at most {settings.PLAN_BODY_LIMIT_BYTES:,} bytes, got more")
        raw = bytes(file.read())
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise forms.ValidationError(
                f"expected UTF-8, got other bytes in line {1 + raw.count(10, 0, error.start)}"
            ) from None
        if "\0" in text:
            line = 1 + text.count("\n", 0, text.index("\0"))
            raise forms.ValidationError(f"expected text without NUL, got one in line {line}")
        return text


class LineField(forms.CharField):
    """A line of text, as REST takes it: without control characters and ends of lines."""

    def to_python(self, value: Any) -> Any:
        """Return the text without the spaces at both ends."""
        text = super().to_python(value)
        if text and (problem := wrong_line(text)):
            raise forms.ValidationError(problem)
        return text


class ArgumentsField(forms.CharField):
    """Arguments of a program, quoted as in a shell; its value is the list of arguments."""

    def clean(self, value: Any) -> Any:
        """Return the arguments."""
        text = super().clean(value)
        try:
            return shlex.split(text)
        except ValueError:
            raise forms.ValidationError(f"Expected arguments with quotes that are closed, got {shown(text)}.") from None


class ChecksFirstPassword:
    """A form in which a new password is typed twice; the first one is checked also if the second one differs."""

    def validate_password_for_user(self, user: User, password_field_name: str = "password2") -> None:  # noqa: S107
        """Show what is wrong with the password at the field where it was typed first."""
        first = password_field_name.replace("2", "1")
        super().validate_password_for_user(user, first)  # type: ignore[misc]


class PageForm(forms.Form):
    """A form of a page."""

    bound_field_class = DescribedField

    goes_with: Mapping[str, GoesWith] = {}
    """Choices that show or hide other fields, by the names of these. Without scripts all are shown."""

    within = ""
    """Prefix of field names in errors, if a request has the form's fields inside another one."""

    def blame(self, error: InvalidField) -> None:
        """Show each error at the field that it is about."""
        for one in error.all_wrong:
            name = one.field.removeprefix(self.within).partition(".")[0].partition("[")[0]
            if name in self.fields:
                self.add_error(name, one.problem)
            else:
                self.add_error(self.elsewhere(), f"{one.field}: {one.problem}")

    def elsewhere(self) -> str | None:
        """Return the field that shows errors about none of the fields; None: they stand above all fields."""
        return None

    def store(self, act: Callable[[], Stored]) -> Stored | None:
        """Return what `act` stores if the form was sent and is valid; else None, with all errors in the form."""
        if not (self.is_bound and self.is_valid()):
            return None
        try:
            return act()
        except InvalidField as error:
            self.blame(error)
        except ServiceError as error:
            self.add_error(None, str(error))
        return None
