#!/usr/bin/env python
"""Run a management command."""

import os
import sys
from types import TracebackType

from django.core.management import execute_from_command_line


def _show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show an error that nothing caught, but nothing of Ctrl-C."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    sys.excepthook = _show
    execute_from_command_line(sys.argv)
