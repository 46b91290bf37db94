"""`python -m tests.load.flood`: what 1,500 bids at once do to single bids in another market, and in the same one.

Rounds with and without a flood alternate, so that other work on this machine meets all of them. A time is from the
instant at which a single bid is due to be sent to the commit of its decision, of those sent before the flood's last
decision. Ratios are to the rounds without a flood.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from threading import Thread
from time import sleep
from typing import Final

import numpy as np

from tests.load import client, world
from tests.load.installation import Installation, embedded, larger
from tests.load.world import World
from tests.processes import end_on_sigterm

SIZES: Final = (500, 500, 500)
"""Numbers of bids of the flood's requests, each of another owner."""
RATE: Final = 5.0
"""Single bids a second."""
SECONDS: Final = 6.0
"""Time for which single bids are sent."""
LEAD_S: Final = 1.0
"""Time from the flood's begin to the first single bid."""
COLUMNS: Final = (
    f"{'single bids':44} {'bids':>5} {'p50 ms':>7} {'p90 ms':>7} {'max ms':>7} {'x p50':>6} {'x p90':>6}"
    f" {'stored p50':>10}"
)
NONE, OTHER, SAME = "no flood", "a flood in another market", "a flood in their market"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.flood", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each kind")
    parser.add_argument("--only", default="", help="installations whose names contain this")
    arguments = parser.parse_args()
    end_on_sigterm()
    print(COLUMNS, flush=True)
    made: list[tuple[str, Callable[[], AbstractContextManager[Installation]]]] = [
        ("two workers", larger),
        ("one worker", lambda: larger(without=("worker-2",))),
        ("embedded", embedded),
    ]
    for name, installation in made:
        if arguments.only in name:
            for row in table(name, installation, arguments.rounds):
                print(row, flush=True)


def table(name: str, installation: Callable[[], AbstractContextManager[Installation]], rounds: int) -> Iterator[str]:
    """Yield the lines of one installation."""
    found: dict[str, list[tuple[float, float]]] = {NONE: [], OTHER: [], SAME: []}
    """Times until single bids were decided and until their storage was answered, seconds."""
    labels = (f"round-{i}" for i in count())
    with installation() as running:
        markets = world.prepare(2, running.env)
        running.start()
        client.closed_loop(running.port, markets, label=next(labels), clients=8, seconds=5.0)
        for _ in range(rounds):
            for kind, lags in found.items():
                lags += _round(running, markets, kind, next(labels))
    quiet = np.quantile([decided for decided, _ in found[NONE]], (0.5, 0.9))
    for kind, lags in found.items():
        decided, stored = np.array(lags).T
        p50, p90 = np.quantile(decided, (0.5, 0.9))
        yield (
            f"{f'{name}, {kind}':44} {len(lags):5} {1000 * p50:7.0f} {1000 * p90:7.0f} {1000 * decided.max():7.0f}"
            f" {p50 / quiet[0]:6.2f} {p90 / quiet[1]:6.2f} {1000 * np.median(stored):10.0f}"
        )


def _round(running: Installation, markets: World, kind: str, label: str) -> list[tuple[float, float]]:
    """Send single bids, beside a flood of this kind; return their times, seconds."""
    single = World(markets.markets[1:], markets.tokens[-1:])
    flooded = World(single.markets if kind == SAME else markets.markets[:1], markets.tokens)
    flood = Thread(target=client.bulk, args=(running.port, flooded), kwargs={"label": f"flood-{label}", "sizes": SIZES})
    if kind != NONE:
        flood.start()
        sleep(LEAD_S)
    sent = client.open_loop(running.port, single, label=label, rate=RATE, seconds=SECONDS)
    if kind != NONE:
        flood.join()
    outcome, last = world.outcome(label, running.env), float("inf")
    if kind != NONE:
        while (others := world.outcome(f"flood-{label}", running.env)).waiting:  # a busy machine
            pass
        if len(others.committed) != sum(SIZES):
            raise RuntimeError(f"{len(others.committed)} bids of the flood were decided")
        last = max(others.committed.values())
    if sent.refused or outcome.waiting:
        raise RuntimeError(f"{outcome.waiting} single bids are undecided, refused are {sent.refused}")
    answered = zip(sent.sent.items(), sent.answer_s, strict=True)
    return [(outcome.committed[number] - due, answer_s) for (number, due), answer_s in answered if due < last]


if __name__ == "__main__":
    main()
