"""Types of arguments that several benchmarks share."""

import argparse


def count(text: str) -> int:
    """Read how many seeds, instances or jobs are wanted: with none, a table would have no figures."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return number
