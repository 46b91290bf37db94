#!/usr/bin/env python
"""Run a management command."""

import os
import select
import sys
from types import TracebackType

from django.core.management import execute_from_command_line

from cluster.database.busy import cause_in_words


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show an error that nothing caught: nothing of Ctrl-C, and one line if the database is the cause.

    Nothing either where nobody reads the output any more, as after `| head`.
    """
    if issubclass(kind, KeyboardInterrupt):
        return
    if issubclass(kind, BrokenPipeError) and _nobody_reads():
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter tries again at its end
        return
    words = cause_in_words(error)
    if words is None or "--traceback" in sys.argv:
        sys.__excepthook__(kind, error, traceback)
    else:
        sys.stderr.write(f"{words}\n")


def _nobody_reads() -> bool:
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.excepthook = _show
    execute_from_command_line(sys.argv)
    if sys.stdout is not None:  # a caller may have closed it
        sys.stdout.flush()
