"""The end of a serving process: waiting requests end at once, so that the process ends within seconds."""

from threading import Event

begun = Event()
"""Set when the process has to stop: waiting requests answer with the present state, and streams end."""


def pause(seconds: float) -> bool:
    """Wait for this time, or until the process has to stop; return whether it has to."""
    return begun.wait(seconds)
