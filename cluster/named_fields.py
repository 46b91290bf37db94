"""Names for screen readers: Django's admin gives fields in rows of tables, and dates with times, none of their own."""

from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminSplitDateTime


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
