"""Answers with large arrays, which are written as JSON without making a Python object of each number."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from rest_framework.renderers import JSONRenderer


class ArraysRenderer(JSONRenderer):
    """Renders objects of which some values are arrays; all else as usual."""

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """Return the document. Raises ValueError if an array has NaN or infinity: JSON has neither."""
        arrays = [value for value in data.values() if isinstance(value, np.ndarray)] if isinstance(data, dict) else []
        indent = self.get_indent(accepted_media_type or "", renderer_context or {})
        if not arrays or indent is not None:
            return bytes(super().render(data, accepted_media_type, renderer_context))
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("expected arrays of finite numbers, got NaN or infinity")
        return orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY)


def in_rows(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array with its numbers in the order in which they are written."""
    return np.ascontiguousarray(array)
