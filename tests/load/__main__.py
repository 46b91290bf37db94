"""`python -m tests.load`: bids at a given rate and as fast as they are answered, on both installations; prints a table.

Every decision is on disk when it is answered, and clients, servers and the database share this machine. Times are from
the instant at which a bid is sent, or is due to be sent, to the commit of its decision, which the database states.
While bids are sent at a rate, another client asks for summaries, prices and quotes, and its times are measured, too.
It has asked for each of them once before a load: a process that has not read a market for thousands of bids builds its
book again.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from time import process_time, sleep
from typing import Final

import numpy as np

from tests.load import client, world
from tests.load.client import Sent
from tests.load.installation import Installation, brought_up, embedded
from tests.load.world import Outcome, World
from tests.processes import end_on_sigterm

RATE: Final = 100.0
BULKS: Final = (500, 500)
"""Numbers of bids of requests that are sent at once."""
MARKETS: Final = 4
WARM_UP_S: Final = 5.0
"""Time of a first load that is not measured: processes load kernels and open connections."""
MOST_LOGGED: Final = 20
"""Largest number of warnings and errors of each process that are shown."""
CALM_S: Final = 5.0
"""Time between two loads."""
COLUMNS: Final = (
    f"{'load':44} {'sent/s':>7} {'decided/s':>9} {'p50 ms':>7} {'p99 ms':>7} {'answer p99':>10} {'read p99':>8}"
    f" {'policy ms':>9} {'CPU ms a bid':>12} {'x policy':>8}  by part"
)


@dataclass(frozen=True)
class Measured:
    """One line of the table."""

    load: str
    sent: Sent
    outcome: Outcome
    processor_s: dict[str, float]
    """Processor time of the installation, by part, seconds."""
    clients_s: float
    """Processor time of the clients, seconds."""

    def text(self) -> str:
        """Return the line."""
        sent, done = self.sent, self.outcome
        if not sent.sent:
            return f"{self.load:44} all {len(sent.refused)} refused: {sent.refused[:1]}"
        lags = np.array([done.committed[number] - due for number, due in sent.sent.items() if number in done.committed])
        begin, end = min(sent.sent.values()), max(done.committed.values())
        sending = max(sent.sent.values()) - begin
        rate = f"{len(sent.sent) / sending:.1f}" if sending > 0 else "at once"
        per_bid = {name: 1000 * used / len(lags) for name, used in self.processor_s.items()}
        policy, total = float(np.mean(done.policy_ms)), sum(per_bid.values())
        parts = ", ".join(f"{name} {ms:.1f}" for name, ms in per_bid.items() if ms >= 0.05)
        parts += f"; clients {1000 * self.clients_s / len(lags):.1f}"
        read = f"{1000 * np.quantile(sent.read_s, 0.99):.0f}" if sent.read_s else ""
        bad = f"  {len(sent.refused)} refused: {sent.refused[0]}" if sent.refused else ""
        bad += f"  {done.waiting} undecided" if done.waiting else ""
        return (
            f"{self.load:44} {rate:>7} {len(lags) / (end - begin):9.1f}"
            f" {1000 * np.quantile(lags, 0.5):7.0f} {1000 * np.quantile(lags, 0.99):7.0f}"
            f" {1000 * np.quantile(sent.answer_s, 0.99):10.0f} {read:>8} {policy:9.1f} {total:12.1f}"
            f" {total / policy:8.1f}  {parts}{bad}"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.load", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="length of each load")
    parser.add_argument("--only", help="loads whose names contain this")
    arguments = parser.parse_args()
    end_on_sigterm()
    print(COLUMNS, flush=True)
    for row in table(arguments.seconds, arguments.only or ""):
        print(row.text(), flush=True)


def table(seconds: float, only: str) -> Iterator[Measured]:
    """Yield the lines: the larger installation, which is that of `make up`, then the embedded one."""
    labels = (f"run-{i}" for i in count())
    for name, installation in (("larger", brought_up), ("embedded", embedded)):
        loads = [(f"{name}: {load}", send) for load, send in _loads(seconds) if only in f"{name}: {load}"]
        if not loads:
            continue
        with installation() as running:
            markets = world.prepare(MARKETS, running.env)
            running.start()
            client.wait_for_kernels(running.port, markets)
            client.closed_loop(running.port, markets, label=next(labels), clients=8, seconds=WARM_UP_S)
            for load, send in loads:
                sleep(CALM_S)
                first_ms = 1000 * max(client.read_each(running.port, markets))
                print(f"The slowest first read of {len(markets.markets)} markets: {first_ms:.0f} ms", file=sys.stderr)
                yield _measured(running, load, next(labels), markets, send)
            for name, lines in running.logged().items():
                kept = [line for line in lines if " WARNING " in line or " ERROR " in line]
                print(*(f"{name}: {line}" for line in kept[:MOST_LOGGED]), sep="\n", file=sys.stderr)


Send = Callable[[int, World, str], Sent]


def _loads(seconds: float) -> Iterator[tuple[str, Send]]:
    for markets in (1, MARKETS):
        where = "one market" if markets == 1 else f"{markets} markets"

        def closed(port: int, world: World, label: str, n: int = markets) -> Sent:
            return client.closed_loop(port, world.first(n), label=label, clients=8, seconds=seconds)

        def opened(port: int, world: World, label: str, n: int = markets) -> Sent:
            return client.open_loop(port, world.first(n), label=label, rate=RATE, seconds=seconds)

        yield f"closed loop, 8 clients, {where}", closed
        yield f"{RATE:.0f} bids a second, {where}", opened

    def bulk(port: int, world: World, label: str) -> Sent:
        return client.bulk(port, world.first(1), label=label, sizes=BULKS)

    yield f"{sum(BULKS):,} bids at once, in {len(BULKS)} requests", bulk


def _measured(running: Installation, load: str, label: str, markets: World, send: Send) -> Measured:
    before, began = running.processor_s(), process_time()
    sent = send(running.port, markets, label)
    clients_s = process_time() - began
    outcome = world.outcome(label, running.env)
    after = running.processor_s()
    return Measured(load, sent, outcome, {name: after[name] - before[name] for name in after}, clients_s)


if __name__ == "__main__":
    main()
