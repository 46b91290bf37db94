"""Stages of a separate process before it can begin. This module needs no database, as such processes have none."""

from typing import Final

LOADING: Final = "loading kernels"
DRAWING: Final = "drawing jobs"
