"""Turns of threads, which share the interpreter of their process."""

import sys
from typing import Final

SWITCH_S: Final = 0.0005
"""Time that a computing thread keeps the interpreter from other threads. A request releases it at each query, and
by default would wait ten times as long for it: with two other threads at work, a page of 50 ms took half a second.
"""


def take_short_turns() -> None:
    """Let the threads of this process take turns of `SWITCH_S` seconds."""
    sys.setswitchinterval(SWITCH_S)
