"""What a process of its own does before it can begin; without a database, as such processes have none."""

from typing import Final

LOADING: Final = "loading kernels"
DRAWING: Final = "drawing jobs"
