"""Processor time of processes that others go before."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

NICENESS: Final = 10
"""Beside one other process on a core, such a process has a tenth of it."""
NICENESS_OF_DECISIONS: Final = 5
"""Beside one other process on a core, such a process has a quarter of it."""
AUTOGROUP: Final = Path("/proc/self/autogroup")
"""Linux shares the processors between sessions first, and the niceness of a session is here."""
LONGEST_S: Final = 2.0
"""Longest wait while sessions of other processes get their niceness, seconds."""


def give_way() -> None:
    """Let other processes of the machine go first, also before processes that this one starts from now on.

    In a container this has no effect on other containers: there the shares of `docker-compose.yml` and the requests of
    `deploy/kubernetes` count.
    """
    _be_nice(NICENESS)
    if sys.platform == "linux":
        # A process that wakes up takes a core on which only such a process runs. By niceness alone it often waited for
        # the other core: decisions on four markets had a p99 of 219 ms at 100 bids a second, and 133 ms with this.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def let_answers_pass() -> None:
    """Let this process, which decides bids, leave more of the processors to those that answer requests.

    A decision may take a few times as long as an answer, and uses as much of the processors. Where it had an equal
    share, reads beside 100 bids a second on four markets had a p99 of 151 ms, and 104 ms with this, in turns of ten
    seconds on two cores; decisions had the same median.
    """
    _be_nice(NICENESS_OF_DECISIONS)


def _be_nice(niceness: int) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))  # only root may have less
    if os.getsid(0) == os.getpid():  # others in this session may not wait
        with suppress(OSError):  # a kernel without these groups shares by processes
            _be_nice_as_session(niceness)


def _be_nice_as_session(niceness: int) -> None:
    """Give the session this niceness, unless it has more already; raises OSError where that is not possible."""
    present = [int(word) for word in AUTOGROUP.read_text().split()[-1:]]  # there is no word if groups are turned off
    end = monotonic() + LONGEST_S
    while True:
        try:
            AUTOGROUP.write_text(str(max([niceness, *present])))
            return
        except BlockingIOError:
            # Processes that are not root's change one session of the machine in a tenth of a second.
            if monotonic() > end:
                raise
            sleep(0.05)
