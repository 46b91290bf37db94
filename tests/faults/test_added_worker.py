"""A worker is added to an installation while bids wait in its markets: both decide, and each bid is decided once."""

import re
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import psycopg2
import pytest
import requests

from tests.faults import crowd
from tests.faults.installation import start_beat, start_web, start_worker
from tests.processes import Process, free_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]

MARKETS: Final = ("north", "south", "west")
AT_ONCE: Final = 40
"""Bids of one request, more than a worker decides in a batch."""
SOME: Final = 20
"""Decisions of a worker that are waited for."""
MOST_WAITING: Final = 200
DECISION: Final = re.compile(r" bid \d+ of (\w+): \w+")


class Load:
    """Bids in bulk to each market in turn, so that some wait everywhere."""

    def __init__(self, address: str, tokens: list[str], env: dict[str, str]) -> None:
        self.sequences: dict[str, list[int]] = {name: [] for name in MARKETS}
        self._address, self._tokens, self._database = address, tokens, env["DATABASE_URL"]
        self._sent = 0

    def send(self) -> None:
        """Send some to each market, unless enough wait."""
        for name in MARKETS if self._waiting() < MOST_WAITING else ():
            self._sent += 1
            client = self._sent % len(self._tokens)
            bodies = [crowd.body_of(client, AT_ONCE * self._sent + i) for i in range(AT_ONCE)]
            answer = requests.post(
                f"{self._address}/api/v1/clusters/{name}/bids/bulk",
                json={"bids": bodies},
                headers={"Authorization": f"Token {self._tokens[client]}"},
                timeout=60,
            )
            assert answer.status_code == 202, answer.text
            self.sequences[name] += [one["sequence"] for one in answer.json()["results"]]

    def _waiting(self) -> int:
        with closing(psycopg2.connect(self._database)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM auctions_bid WHERE state = 'submitted'")
            return int(cursor.fetchone()[0])


def decisions(worker: Process) -> Counter[str]:
    """The bids that a worker has decided, by market, as its log says."""
    return Counter(DECISION.findall(worker.text()))


def test_a_worker_that_is_added_under_load_takes_markets_over_and_no_bid_is_decided_twice(
    env: dict[str, str], tmp_path: Path
) -> None:
    env |= {"SHADOWPRICE_LOG": "INFO"}
    tokens = crowd.call("prepare", "dps", *MARKETS, env=env)
    port = free_port()
    with ExitStack() as started:

        def keep(process: Process) -> Process:
            started.callback(process.end)
            return process

        keep(start_web(port, env, tmp_path / "web.log"))
        keep(start_beat(env, tmp_path))
        first = keep(start_worker("first", env, tmp_path))
        load = Load(f"http://127.0.0.1:{port}", tokens, env)

        def have_decided(*counts: tuple[Process, int]) -> Any:
            load.send()
            return all(sum(decisions(worker).values()) >= count for worker, count in counts)

        wait_until(lambda: have_decided((first, SOME)), what="decisions of the first worker")
        second = keep(start_worker("second", env, tmp_path))
        wait_until(lambda: have_decided((second, SOME)), what="decisions of the second worker")
        before = sum(decisions(first).values()), sum(decisions(second).values())
        both = [(first, before[0] + SOME), (second, before[1] + SOME)]
        wait_until(lambda: have_decided(*both), what="decisions of both workers")
        crowd.wait_for_decisions(env)
        assert first.alive, first.text()
        assert second.alive, second.text()
        by_market = decisions(first) + decisions(second)
    for name in MARKETS:
        crowd.assert_each_bid_decided_once(env, load.sequences[name], cluster=name)
        assert by_market[name] == len(load.sequences[name]), "each decision is logged by one worker"
