"""Payoff of bidders who state something else than the truth. `python -m benchmarks.misstatements [--sequences]`.

**A single decision** (the default), under `completions`, in worlds of traces, and in worlds by the ranges of the DPS
paper, with several machine types. In each world all bidders state the truth. On the books on which bids are decided,
first or in a later try, every fourth bidder's decision is made again with other statements: of the value, of the
deadline, of the work, of the most workers and of the upload delay. A statement counts with the true value of the
promised slot. A statement of less work than the job has, or of less delay, is promised nothing that the job can use, so
it is not looked at.

**A sequence of tries** (`--sequences`), under DPS, `completions` and `competition` with standing bids. In each world
every fourth bidder in turn, and nobody else, states its value times a factor from its arrival on, and the world runs to
its end. *best* is the best of the factors for each bidder, which only a bidder who knows what will come can choose.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from benchmarks.arguments import count
from benchmarks.later_deadlines import LOADS, SOURCES, TOLERANCE, World, with_deadlines
from benchmarks.market_on_traces.workloads import make_workload, own_sources
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book
from scheduling.kernels import warm_up_all
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision
from scheduling.model.types import Floats
from scheduling.model.utility import Constant, Step, Utility
from scheduling.policies.base import Policy
from scheduling.policies.completions import Completions
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule, rule_for
from scheduling.registry import make_policy
from studies.workloads.generated import dps

LESS = (0.1, 0.25, 0.5, 0.75, 0.9)
MORE = (1.5, 2.0, 5.0)
FACTORS = {"dps": LESS, "completions": LESS, "competition": (*LESS, *MORE)}
"""Stated values over the true one, in sequences. Where bids compete, who states more may start sooner."""
EVERY = 4
"""Every this many bidders, one is looked at."""


@dataclass(frozen=True)
class Gain:
    """The best of some statements for one bidder on one book, money."""

    truth: float
    """Payoff of the truth."""
    gained: float
    """Payoff of the best statement, less that of the truth; 0 if no statement earns more."""
    value: float
    """Largest value of the bid."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.misstatements", description=__doc__)
    parser.add_argument("--seeds", type=count, default=2, help="worlds of each trace and load")
    parser.add_argument(
        "--jobs", type=int, default=50, help="jobs of each world of a trace; twice as many by DPS ranges"
    )
    parser.add_argument("--sequences", action="store_true", help="of whole sequences of tries")
    options = parser.parse_args()
    warm_up_all()
    traced = list(worlds(seeds=options.seeds, jobs=options.jobs))
    if options.sequences:
        tables = [sequences(traced)]
    else:
        drawn = [generated(seed, jobs=2 * options.jobs) for seed in range(6 * options.seeds)]
        tables = [decisions(traced, "traces"), decisions(drawn, "DPS ranges")]
    for table in tables:
        for line in table:
            print(line, flush=True)


def worlds(*, seeds: int, jobs: int) -> Iterator[World]:
    """Yield the worlds of `benchmarks.later_deadlines`: half of the bids keep the values of the trace's workload."""
    sources = {source.name: source for source in own_sources()}
    for name in SOURCES:
        for load in LOADS:
            for seed in range(seeds):
                work = make_workload(sources[name], load, "by_size", seed, seeds=seeds, jobs=jobs)
                runs = {bid.id: ceil(work.traced.runs_s[bid.id] / work.plan.slot_s) for bid in work.traced.bids}
                timed = with_deadlines(work.traced.bids, runs, horizon=work.plan.horizon, seed=5 + seed)
                pairs = zip(work.traced.bids, timed, strict=True)
                bids = [pair[number % 2] for number, pair in enumerate(pairs)]
                yield World(bids, work.inventory, work.plan.horizon)


def generated(seed: int, *, jobs: int) -> World:
    """Return a crowded world by the ranges of the DPS paper: four edge servers, two types of each machine, no cloud."""
    setting = replace(dps.SMALL, servers=4, jobs=jobs)
    drawn = dps.draw(setting, np.random.default_rng(seed))
    edge = np.array([[not away] for away in drawn.inventory.cloud])
    return World(drawn.bids, replace(drawn.inventory, capacity=drawn.inventory.capacity * edge), setting.slots)


def statements(bid: Bid, horizon: int) -> dict[str, list[Bid]]:
    """Return other statements of a bid, by what they misstate; all of them ask for at least what the job needs."""
    value = bid.utility.value
    shapes: list[Utility] = [
        Constant(value),
        *(Step(value, slots) for slots in range(1, horizon, max(1, horizon // 24))),
    ]
    less = [workers for workers in (1, bid.chunks // 2, bid.chunks - 1) if 0 < workers < bid.chunks]
    return {
        "value": [_with(bid, bid.utility.scaled(factor)) for factor in (0.25, 0.5, 0.8, 0.95, 1.05, 1.25, 2.0, 10.0)],
        "deadline": [_with(bid, shape) for shape in shapes],
        "more work": [
            replace(bid, minibatches=bid.minibatches + ceil(bid.minibatches * part / 100))
            for part in (1, 5, 10, 25, 50)
        ],
        "fewer workers": [
            replace(bid, chunks=workers, minibatches=ceil(bid.minibatches * bid.chunks / workers)) for workers in less
        ],
        "more delay": [replace(bid, delay=tuple(slots + more for slots in bid.delay)) for more in (1, 2, 4, 8)],
    }


def decisions(drawn: Sequence[World], where: str) -> Iterator[str]:
    """Yield a table of what other statements gain in single decisions under `completions`."""
    for later in (0.0, 0.05):
        found: dict[str, list[Gain]] = defaultdict(list)
        for world in drawn:
            for kind, gain in gains(later, world):
                found[kind].append(gain)
        yield f"{where}, later = {later:g}"
        yield from _table(found)


def gains(later: float, world: World) -> list[tuple[str, Gain]]:
    """Run a world of truthful bidders; return what other statements of every fourth one gain on each of its books."""
    found: list[tuple[str, Gain]] = []
    policy = Completions(later=later)
    looked_at = {bid.id for bid in world.bids[::EVERY]}

    class Watched(Completions):
        """The policy, which looks at other statements in each try."""

        def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
            """Return the admissions of the policy."""
            admitted = super().admissions(book)

            def tried(bid: Bid) -> Decision | None:
                if bid.id in looked_at:
                    found.extend(compared(policy, bid, book, world.horizon, where=", a later try"))
                return admitted(bid)

            return tried

    ledger = Ledger(world.inventory, start=0, slots=world.horizon)
    run = Simulation(Watched(later=later), RunningBook(ledger), rule=StandingRule())
    for bid in world.bids:
        run.advance(bid.arrival)
        if bid.id in looked_at:
            found.extend(compared(policy, bid, run.book.view(), world.horizon))
        run.arrive(bid)
    return found


def compared(policy: Policy, bid: Bid, book: Book, horizon: int, *, where: str = "") -> Iterator[tuple[str, Gain]]:
    """Yield what the best statement of each kind gains on a book."""
    truth = _payoff(policy, bid, bid, book)
    for kind, stated in statements(bid, horizon).items():
        best = max((_payoff(policy, one, bid, book) for one in stated), default=truth)
        yield f"{kind}{where}", Gain(truth, max(0.0, best - truth), bid.utility.value)


def _payoff(policy: Policy, stated: Bid, true: Bid, book: Book) -> float:
    decision = policy.decide(stated, book)
    if not decision.admitted or decision.due is None:
        return 0.0
    return true.utility.at(decision.due - true.arrival) - decision.payment


def _table(found: Mapping[str, Sequence[Gain]]) -> Iterator[str]:
    yield "| misstated | decisions | can gain | mean gain / mean payoff | most, of the value | most, of the payoff |"
    yield "|" + " --- |" * 6
    for kind, rows in found.items():
        gained, truth, value = (np.array([getattr(row, name) for row in rows]) for name in ("gained", "truth", "value"))
        paid = truth > TOLERANCE
        most = float((gained[paid] / truth[paid]).max(initial=0.0))
        yield (
            f"| {kind} | {len(rows)} | {(gained > TOLERANCE).mean():.1%} | {gained.sum() / max(truth.sum(), 1e-9):.2%} "
            f"| {float((gained / value).max()):.1%} | {most:.1%} |"
        )


def sequences(drawn: Sequence[World]) -> Iterator[str]:
    """Yield a table of what an understated value gains in the end."""
    yield "| policy | stated / true value | bidders | gain | lose | mean gain / mean payoff | most, of the value |"
    yield "|" + " --- |" * 7
    for name, factors in FACTORS.items():
        gain, truth, value = (
            np.concatenate(parts) for parts in zip(*(understated(name, w) for w in drawn), strict=True)
        )
        rows = {f"{factor:g}": gain[:, column] for column, factor in enumerate(factors)}
        rows["best"] = np.maximum(0.0, gain.max(axis=1))
        for stated, column in rows.items():
            yield (
                f"| {name} | {stated} | {len(column)} | {(column > TOLERANCE).mean():.0%} "
                f"| {(column < -TOLERANCE).mean():.0%} | {column.sum() / truth.sum():+.1%} "
                f"| {float((column / value).max()):.0%} |"
            )


def understated(name: str, world: World) -> tuple[Floats, Floats, Floats]:
    """Return what each factor gains (bidders x factors), the payoffs of the truth, and the values."""
    chosen = range(0, len(world.bids), EVERY)
    base = _run(name, world)
    truth = np.array([_final(base, world, number) for number in chosen])
    lies = [
        [_final(_run(name, world, liar=number, factor=factor), world, number) for factor in FACTORS[name]]
        for number in chosen
    ]
    return np.array(lies) - truth[:, np.newaxis], truth, np.array([world.bids[n].utility.value for n in chosen])


def _run(name: str, world: World, *, liar: int | None = None, factor: float = 1.0) -> Simulation:
    policy = make_policy(name, {})
    book = RunningBook(Ledger(world.inventory, start=0, slots=world.horizon))
    run = Simulation(policy, book, rule=rule_for(policy))
    for number, bid in enumerate(world.bids):
        run.advance(bid.arrival)
        run.arrive(_with(bid, bid.utility.scaled(factor)) if number == liar else bid)
    # The others need no turn once the bid in question has its last decision.
    end = run.book.now + 2 * world.horizon
    while run.standing and run.book.now < end and (liar is None or liar in run.standing):
        run.advance(run.book.now + 1)
    return run


def _final(run: Simulation, world: World, number: int) -> float:
    """Return the true payoff of a bid's last decision."""
    bid, decision = world.bids[number], run.decisions[number]
    if not decision.admitted or decision.schedule is None:
        return 0.0
    return bid.utility.at((decision.due or decision.schedule.completion) - bid.arrival) - decision.payment


def _with(bid: Bid, utility: Utility) -> Bid:
    return replace(bid, utility=utility)


if __name__ == "__main__":
    main()
