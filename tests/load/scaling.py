"""`python -m tests.load.scaling`: how many bids one, two and more processes decide in time.

Measures on PostgreSQL how fast one process, and two at once, decide the bids of four markets, and what a batch costs
beside its bids. With these times it simulates more processes than this machine has cores for: each market belongs to
one process, bids come at random (Poisson), and a process decides batches of its markets in turns. The simulation
assumes a core for each process, and a database, web processes and network that keep up.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tests.load import world
from tests.load.installation import DURABLE
from tests.processes import ROOT, end_on_sigterm, postgres, python_env, run_python, wait_until

MARKETS: Final = 4
BIDS: Final = 320
"""Bids of each market in each measurement."""
WARM_UP: Final = 16
"""Bids of each market that each process decides before it is measured."""
LONGEST_LAG_S: Final = 0.25
"""The 99th percentile that is wanted from the arrival of a bid to the end of its batch, seconds."""
SIMULATED_S: Final = 60.0
PROCESSES: Final = (1, 2, 4, 8, 16, 32)
MARKETS_A_PROCESS: Final = 4


@dataclass(frozen=True)
class Costs:
    """Times of a process that decides."""

    batch_s: float
    """Time of a batch without its bids."""
    bid_s: float
    most: int
    """Largest number of bids of a batch."""


def lags(costs: Costs, arrivals: Sequence[Sequence[float]]) -> list[float]:
    """Return the times from the arrival of each bid to the end of its batch, seconds, in one process.

    `arrivals` holds the times of the bids of each market in order, seconds. The process gives a batch to each of its
    markets that has bids, in turns.

    >>> lags(Costs(batch_s=1.0, bid_s=0.5, most=2), [[0.0, 0.5, 0.5], [0.25]])
    [1.5, 4.5, 4.5, 2.75]
    """
    waiting = [deque(enumerate(times)) for times in arrivals]
    found = [[0.0] * len(times) for times in arrivals]
    turns, now = deque(range(len(arrivals))), 0.0
    while any(waiting):
        chosen = next((k for k in turns if waiting[k] and waiting[k][0][1] <= now), None)
        if chosen is None:
            now = min(queue[0][1] for queue in waiting if queue)
            continue
        turns.remove(chosen)
        turns.append(chosen)
        queue, batch = waiting[chosen], list[tuple[int, float]]()
        while queue and len(batch) < costs.most and queue[0][1] <= now:
            batch.append(queue.popleft())
        now += costs.batch_s + len(batch) * costs.bid_s
        for i, came in batch:
            found[chosen][i] = now - came
    return [lag for of_market in found for lag in of_market]


def highest_rate(costs: Costs, *, markets: int, rng: np.random.Generator) -> float:
    """Return the highest rate of a process with this number of markets at which 99 % of bids are in time, bids a s."""
    low, high = 0.0, costs.most / (costs.batch_s + costs.most * costs.bid_s)
    while high - low > 0.02 * high:
        rate = (low + high) / 2
        times = [_poisson(rate / markets, rng) for _ in range(markets)]
        found = lags(costs, times)
        if not found or np.quantile(found, 0.99) <= LONGEST_LAG_S:
            low = rate
        else:
            high = rate
    return low


def _poisson(rate: float, rng: np.random.Generator) -> list[float]:
    """Return random arrival times at this rate, seconds."""
    count = int(rng.poisson(rate * SIMULATED_S))
    return sorted(rng.uniform(0.0, SIMULATED_S, count).tolist())


def main() -> None:
    """Measure, simulate and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.scaling", description=__doc__)
    parser.add_argument("--web-ms", type=float, required=True, help="processor time of web for a bid, by `make load`")
    parser.add_argument("--database-ms", type=float, required=True, help="the same of the database")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    end_on_sigterm()
    with ExitStack() as started:
        folder, shared = (Path(started.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        database = started.enter_context(postgres(shared=shared, options=DURABLE))
        env = python_env(folder, DATABASE_URL=f"{database.url.rpartition('/')[0]}/tables")
        world.prepare(MARKETS, env)
        one = _drained(env, folder, [range(MARKETS)])
        print(f"one process: {one:.0f} bids a second on {MARKETS} markets", flush=True)
        two = _drained(env, folder, [range(0, MARKETS, 2), range(1, MARKETS, 2)])
        print(f"two processes: {two:.0f}, {two / one:.2f} times as many", flush=True)
        single = _drained(env, folder, [range(MARKETS)], at_most=1)
        print(f"one process, one bid a batch: {single:.0f}", flush=True)
    most = int(run_python("-c", "from tests.load.scaling import largest_batch; print(largest_batch())", env=env))
    # t(n) = batch + n bid, and the two measurements are t(1) and t(most) / most.
    batch_s = (1 / single - 1 / one) * most / (most - 1)
    costs = Costs(batch_s, 1 / single - batch_s, most)
    print(f"a batch takes {1000 * costs.batch_s:.1f} ms and {1000 * costs.bid_s:.1f} ms for each of its bids")
    for line in _simulated(costs, asked.web_ms, asked.database_ms, np.random.default_rng(asked.seed)):
        print(line)


def largest_batch() -> int:
    """Return the largest number of bids of a batch."""
    _start()
    from auctions.engine.decision_queue import LARGEST_BATCH

    return LARGEST_BATCH


def _simulated(costs: Costs, web_ms: float, database_ms: float, rng: np.random.Generator) -> Iterator[str]:
    """Yield the lines of the table: processes that decide, and what they need beside them."""
    alone = highest_rate(costs, markets=1, rng=rng)
    yield f"one market alone: {alone:.0f} bids a second, since one process at a time decides a market"
    yield f"{'processes':>9} {'markets':>7} {'bids/s':>7} {'cores of web':>12} {'cores of database':>17}"
    each = highest_rate(costs, markets=MARKETS_A_PROCESS, rng=rng)
    for processes in PROCESSES:
        rate = processes * each
        cores = f"{rate * web_ms / 1000:12.1f} {rate * database_ms / 1000:17.1f}"
        yield f"{processes:>9} {processes * MARKETS_A_PROCESS:>7} {rate:7.0f} {cores}"


def _drained(env: dict[str, str], folder: Path, parts: Sequence[range], *, at_most: int = 0) -> float:
    """Let a process for each part decide the bids of its markets, all at once; return bids a second."""
    bids = BIDS if at_most == 0 else BIDS // 4
    run_python("-c", f"from tests.load import scaling; scaling.fill({bids + WARM_UP})", env=env, seconds=600)
    with tempfile.TemporaryDirectory(dir=folder) as signs:
        processes = []
        for k, part in enumerate(parts):
            call = f"scaling.drain({list(part)}, {at_most}, signs={signs!r}, number={k})"
            command = [sys.executable, "-c", f"from tests.load import scaling; {call}"]
            processes.append(subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        wait_until(lambda: len(list(Path(signs).iterdir())) == len(parts), what="the processes that decide")
        began = time.time()
        Path(signs, "go").touch()
        ended = [float(process.communicate()[0]) for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError("a process that decides has failed")
    return MARKETS * bids / (max(ended) - began)


def fill(bids: int) -> None:
    """Submit this number of bids to each market, in this process."""
    _start()
    from django.contrib.auth.models import User

    from auctions.engine.submission import submit_bid
    from auctions.models import Market

    owners = list(User.objects.order_by("pk"))
    clusters = [market.cluster for market in Market.objects.select_related("cluster").order_by("pk")]
    shape = world.World([cluster.name for cluster in clusters], [""] * len(owners))
    for number in range(bids * len(clusters)):
        cluster = clusters[number % len(clusters)]
        owner = owners[number // len(clusters) % len(owners)]
        submit_bid(cluster=cluster, owner=owner, body=shape.body(number, "scaling"))


def drain(positions: Sequence[int], at_most: int, *, signs: str, number: int) -> None:
    """Decide what waits on these markets, in turns, and print the time of the end, seconds.

    This begins when a file `go` appears in the folder `signs`, where the process of this number says that it is ready.
    """
    _start()
    from auctions.engine import decision_queue
    from auctions.kernels import warming
    from auctions.models import Market

    warming.compile_here(warming.groups_of_open_markets())
    keys = list(Market.objects.order_by("pk").values_list("pk", flat=True))
    mine = [keys[position] for position in positions]
    for market in mine:
        decision_queue.process_pending(market, at_most=WARM_UP)
    Path(signs, f"ready-{number}").touch()
    while not Path(signs, "go").exists():
        time.sleep(0.001)
    most = at_most or decision_queue.LARGEST_BATCH
    while mine:
        mine = [market for market in mine if decision_queue.decide_batch(market, at_most=most)]
    print(time.time())


def _start() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()


if __name__ == "__main__":
    main()
