"""The end of a serving process: whoever waits in it is told at once, so that it ends within seconds."""

from threading import Event

begun = Event()
"""Set when the process was asked to stop: waiting requests answer with what they know, streams end."""


def pause(seconds: float) -> bool:
    """Wait for so long, or until the process is to stop; whether it is."""
    return begun.wait(seconds)
