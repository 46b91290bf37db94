"""The claim on a market on PostgreSQL: one process holds it, and others have it at once when that one dies."""

import signal
from pathlib import Path

import pytest

from tests.faults.installation import shell
from tests.forks import project
from tests.processes import Process, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]

TAKE = "from auctions.engine.claims import take; print(*(take(market) for market in ({},)), flush=True)"
HOLD = TAKE + "; import time; time.sleep(120)"


def test_a_lane_is_free_as_soon_as_the_process_that_holds_it_is_killed(env: dict[str, str], tmp_path: Path) -> None:
    command = ["python", "-c", HOLD.format("7, 8")]
    holder = Process(command, log=tmp_path / "holder.log", env=env, parent=project(env))
    try:
        wait_until(lambda: "True True" in holder.text() or not holder.alive, what="the claims")
        assert holder.alive, holder.text()
        assert _taken("7, 8, 9", env) == ["False", "False", "True"]
        holder.signal_group(signal.SIGKILL)
        holder.popen.wait(10)
        assert _taken("7, 8, 9", env) == ["True", "True", "True"]
    finally:
        holder.end()


def _taken(markets: str, env: dict[str, str]) -> list[str]:
    return shell(TAKE.format(markets), env).split()
