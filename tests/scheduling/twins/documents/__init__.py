"""Twins that read instance files themselves: slow, obvious, and without a line of `scheduling`.

Times and counts are fractions, money is decimals of 28 digits. What they find is the expected answer of the generated
instances in `tests/data`, so nothing here may use the code that is tested against it.
"""
