"""Names for screen readers, and words for wrong names.

Django's admin gives fields in rows of tables, and dates with times, no names of their own.
"""

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime

from cluster.models import NAME, NAME_IN_WORDS, SLUG_IN_WORDS


class NamedDates:
    """A model form of the admin whose dates and times are named: a date with its time is two fields, and no label."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: dict[str, forms.Field] = self.fields  # type: ignore[attr-defined]
        for name, field in fields.items():
            if isinstance(field.widget, AdminSplitDateTime):
                heading = _heading(name, field)
                for part, words in zip(field.widget.widgets, ("date", "time"), strict=True):
                    part.attrs["aria-label"] = f"{heading}, {words}"


class NamesInWords(forms.ModelForm):  # type: ignore[type-arg]
    """A model form of the admin that says what a name may have, and what was given, as REST does."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, field in self.fields.items():
            if isinstance(field, forms.SlugField):
                field.error_messages["invalid"] = f"Expected {SLUG_IN_WORDS}, got “%(value)s”."
            elif name in self._named():
                field.error_messages["invalid"] = f"Expected {NAME_IN_WORDS}, got “%(value)s”."

    def _named(self) -> set[str]:
        fields = self._meta.model._meta.fields
        return {one.name for one in fields if NAME in one.validators}


class NamedRows(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    """Rows of a table whose fields have the names of their columns and rows: a heading of a column is no label."""

    def add_fields(self, form: Any, index: int | None) -> None:
        """Name the fields of a row; the last one, which the page copies, becomes a new row."""
        super().add_fields(form, index)
        row = "new row" if index is None else f"row {index + 1}"
        for name, field in form.fields.items():
            if field.widget.is_hidden:
                continue
            # A select with links beside it passes on no attributes but those of the select itself.
            getattr(field.widget, "widget", field.widget).attrs["aria-label"] = f"{_heading(name, field)}, {row}"


def _heading(name: str, field: forms.Field) -> str:
    words = str(field.label or name).replace("_", " ")
    return words[:1].upper() + words[1:]
