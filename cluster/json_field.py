"""The field of forms for JSON that people write."""

from typing import Any

from django import forms

from scheduling.model.json_text import read_json


class JsonFormField(forms.JSONField):
    """A field of a form that shows a text again as it was sent, however it is nested, and whatever its characters."""

    def to_python(self, value: Any) -> Any:
        """Return the document; a form error for a text that is not JSON. Nothing and null are the model's default."""
        if isinstance(value, str) and value:
            try:
                read_json(value)
            except ValueError as error:
                raise forms.ValidationError(f"Expected JSON, got an invalid document: {str(error)[:200]}") from None
        document = super().to_python(value)
        return self.initial() if document is None and callable(self.initial) else document

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return what the form shows of what was sent: the text itself."""
        return super().bound_data(data, initial) if data is None else forms.fields.InvalidJSONInput(data)
