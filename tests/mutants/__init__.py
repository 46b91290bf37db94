"""The mutation check: `python -m tests.mutants`."""
