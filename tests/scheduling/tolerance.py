"""The tolerance with which answers of kernels are compared with those of their twins."""

TOLERANCE = 1e-9


def near(a: float, b: float, scale: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(1.0, scale)
