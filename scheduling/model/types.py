"""Array aliases. Letters in shapes: T slots, S servers, R resources, W worker types, P PS types."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Json = dict[str, Any]
