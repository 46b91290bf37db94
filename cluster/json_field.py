"""The field of forms for JSON that people write."""

from typing import Any

from django import forms

from scheduling.model.json_text import read_json


class JsonFormField(forms.JSONField):
    """A field of a form that shows a text again that it refuses, however it is nested."""

    def to_python(self, value: Any) -> Any:
        """Return the document; a form error for a text that is not JSON."""
        if isinstance(value, str) and value:
            try:
                read_json(value)
            except ValueError as error:
                raise forms.ValidationError(f"Expected JSON, got an invalid document: {str(error)[:200]}") from None
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return what the form shows of what was sent: the text itself if it is refused."""
        try:
            read_json(data or "null")
        except ValueError:
            return forms.fields.InvalidJSONInput(data)
        return super().bound_data(data, initial)
