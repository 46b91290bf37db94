"""Files of a database that other users of the machine must not open.

Programs of jobs run as system users of their own. One that could read the file would know all bids and sessions, and by
a lock on it, which needs no right to write, could keep the service waiting.
"""

import os
import stat
from contextlib import suppress
from typing import Final

OURS: Final = 0o600
"""Permissions of files that are made."""
OTHERS: Final = 0o007
"""Permissions of other users, which are taken away. Those of a group are the operator's choice."""
BESIDE: Final = ("", "-wal", "-shm", "-turn", "-next")
"""Ends of the names of a database's files. SQLite gives new ones the permissions of the database."""


def make_private(path: str) -> None:
    """Make the file of a database if it is not there, and take rights on all its files from other users."""
    with suppress(OSError):  # it is there; or SQLite says why not when it opens it
        os.mknod(path, OURS | stat.S_IFREG)  # without opening it: to close it would end SQLite's locks of this process
    for file in (path + end for end in BESIDE):
        with suppress(OSError):  # it is not there, or belongs to another user
            mode = stat.S_IMODE(os.stat(file).st_mode)
            if mode & OTHERS:
                os.chmod(file, mode & ~OTHERS)
