"""Speed, measured: each figure a ratio against a slow literal twin, in one run. `python -m benchmarks`."""
