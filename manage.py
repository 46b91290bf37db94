#!/usr/bin/env python
"""Run a management command."""

import os
import sys
from types import TracebackType

from django.core.management import execute_from_command_line

from cluster.database.busy import cause_in_words


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show an error that nothing caught: nothing of Ctrl-C, and one line if the database is the cause."""
    if issubclass(kind, KeyboardInterrupt):
        return
    words = cause_in_words(error)
    if words is None or "--traceback" in sys.argv:
        sys.__excepthook__(kind, error, traceback)
    else:
        sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.excepthook = _show
    execute_from_command_line(sys.argv)
