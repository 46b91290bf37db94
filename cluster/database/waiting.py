"""No transaction waits for anything but the database: whoever holds its lock meanwhile holds up everybody else."""

from django.db import connection


class WaitsInTransaction(RuntimeError):
    """Something was about to be waited for while a transaction was open."""


def never_in_transaction(what: str) -> None:
    """To be called before waiting for `what`: a broker, a process, a kernel that is compiled, another thread.

    Raises
    ------
    WaitsInTransaction
        If this thread has a transaction open. Only the one that a test runs in may be open.
    """
    # As durable transactions of Django do, leave out those that a test case opened.
    if any(not getattr(block, "_from_testcase", False) for block in connection.atomic_blocks):
        raise WaitsInTransaction(f"{what} would be waited for within a transaction")
