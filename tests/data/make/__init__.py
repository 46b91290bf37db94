"""Makes the generated files of `tests/data`, byte for byte: `python -m tests.data.make [PATTERN]`."""
