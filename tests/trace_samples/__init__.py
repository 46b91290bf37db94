"""Samples of public trace formats: synthetic rows, drawn from recorded seeds, with what a reader has to find in them.

`python -m tests.trace_samples` writes `tests/data/traces` again, byte for byte.
"""
