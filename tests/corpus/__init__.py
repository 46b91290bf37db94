"""What the code decides, recorded before a change of its structure and compared after it.

`python -m tests.corpus record FILE` writes the record of this checkout; `python -m tests.corpus compare FILE` decides
everything again and prints each difference.
"""
