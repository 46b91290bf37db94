"""The output stream of a process for its reports."""

import os
from typing import TextIO


def own_output() -> TextIO:
    """Return standard output for the caller alone; all other output goes to standard error from now on.

    HiGHS prints a line there where it repairs a solution, whatever its options say, and a buffer of such lines may end
    anywhere: between two lines of JSON it would be taken for the end.
    """
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own
