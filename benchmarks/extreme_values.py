"""The welfare of others beside a bidder with extreme values. `python -m benchmarks.extreme_values [--seeds 2 3 4]`.

Twelve owners send jobs for eight GPUs; values and sizes are synthetic. After every second of these bids another owner
sends a tiny job with an extreme value, which counts as a bid of its own. A row has the sum of the values of the twelve
owners' admitted jobs over that without such bids, with the limit of offers and without it: the mean over seeds, and the
least. *From the start*: the first bids of the market are extreme, too; otherwise prices learned for 100 slots before.

In the first table all GPUs are of one kind. In the second one half of them are slow, and the tiny jobs are worth 10^4
if a fast one runs them, and 10^-7 after the time that a slow one takes: they offer much for the one kind, nearly
nothing for the other, and an ordinary amount in the mean.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.kernels import warm_up_all
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Json
from scheduling.model.utility import Linear, Table, Utility
from scheduling.pricing.pooling import NO_LIMIT
from scheduling.registry import make_policy

SLOTS, HORIZON, COUNTED_FROM, LEARNED = 400, 48, 100, 100
"""Slots of a run and of the horizon; the slots from which values count, and from which an established market meets
extreme values."""
OWNERS, PER_SLOT = 12, 1.2
MARKETS: tuple[tuple[str, Json], ...] = (
    ("dps", {}),
    ("dps", {"price": "fluid"}),
    ("oasis", {}),
    ("oasis", {"price": "fluid"}),
    ("completions", {}),
)
VALUES = (1e6, 1e12, 1e-7)
HALF = Fraction(1, 2)
STEPS: dict[bool, tuple[Fraction, ...]] = {False: (HALF,), True: (HALF, Fraction(1))}
"""Slots of a step on each kind of GPU, with one kind and with two; as much again is sent."""
TINY: dict[bool, tuple[Fraction, ...]] = {False: (HALF,), True: (HALF, Fraction(39, 2))}
"""The same for tiny jobs."""
SPLIT = Table((1e4, 1e4, *[1e-7] * 30))
"""The worth of a tiny job after one slot and after twenty."""


@dataclass(frozen=True)
class Attack:
    """A tiny bid with this utility after every second bid of others, from a slot on."""

    utility: Utility
    first_slot: int


def inventory(*, two_kinds: bool) -> Inventory:
    """Eight GPUs, of which half are slow if there are two kinds, and parameter servers on another server."""
    kinds = ("fast", "slow") if two_kinds else ("gpu",)
    each = 8 // len(kinds)
    return Inventory(
        resources=(*kinds, "cpu"),
        servers=(*kinds, "ps"),
        cloud=(False,) * (len(kinds) + 1),
        capacity=np.diag([*[each] * len(kinds), 8]),
        workers=tuple(
            MachineType(kind, tuple(int(i == k) for i in range(len(kinds) + 1)), Fraction(100))
            for k, kind in enumerate(kinds)
        ),
        parameter_servers=(MachineType("ps", (*[0] * len(kinds), 1), Fraction(200)),),
    )


def _job(
    name: int, arrival: int, utility: Utility, step: tuple[Fraction, ...], *, epochs: int = 1, chunks: int = 1
) -> Bid:
    """Return a job of `epochs` x `chunks` steps."""
    return Bid(
        str(name),
        arrival=arrival,
        epochs=epochs,
        chunks=chunks,
        minibatches=1,
        worker_time=step,
        ps_time=(Fraction(0),),
        transfer_time=(HALF,) * len(step),
        delay=(0,) * (len(step) + 1),
        utility=utility,
    )


def welfare(
    policy: str, parameters: Json, seed: int, attack: Attack | None = None, *, two_kinds: bool = False
) -> float:
    """Return the sum of the values of the admitted jobs of all owners but the attacker, from `COUNTED_FROM` on."""
    rng, made = np.random.default_rng(seed), make_policy(policy, parameters)
    book, sent, total = RunningBook(Ledger(inventory(two_kinds=two_kinds), start=0, slots=HORIZON)), 0, 0.0

    def decide(bid: Bid, owner: int) -> float:
        decision = made.decide(bid, book.view())
        book.apply_decision(bid, decision, bound=made.binding, owner=owner)
        return decision.value

    for slot in range(SLOTS):
        book.advance(slot)
        for _ in range(rng.poisson(PER_SLOT)):
            epochs = int(rng.integers(2, 12))
            value = epochs * float(rng.lognormal(1.5, 0.7))
            bid = _job(2 * sent, slot, Linear(value, value / 40), STEPS[two_kinds], epochs=epochs, chunks=2)
            got = decide(bid, int(rng.integers(OWNERS)))
            total += got if slot >= COUNTED_FROM else 0.0
            if attack is not None and slot >= attack.first_slot and sent % 2:
                decide(_job(2 * sent + 1, slot, attack.utility, TINY[two_kinds]), OWNERS)
            sent += 1
    return total


def table(seeds: Sequence[int], utilities: dict[str, Utility], *, two_kinds: bool) -> Iterator[str]:
    """Yield the rows of a table, in Markdown."""
    columns = [f"{name}{when}" for name in utilities for when in ("", ", from the start")]
    yield f"| market | limit | {' | '.join(columns)} |"
    yield f"| --- | --- |{' --- |' * len(columns)}"
    for policy, parameters in MARKETS:
        for limit in (make_policy(policy, {}).to_json()["offer_limit"], NO_LIMIT):
            asked = {**parameters, "offer_limit": limit}
            usual = [welfare(policy, asked, seed, two_kinds=two_kinds) for seed in seeds]
            cells = []
            for utility in utilities.values():
                for first in (LEARNED, 0):
                    attack = Attack(utility, first)
                    attacked = [welfare(policy, asked, seed, attack, two_kinds=two_kinds) for seed in seeds]
                    ratios = np.divide(attacked, usual)
                    cells.append(f"{ratios.mean():.2f} ({ratios.min():.2f})")
            name = f"{policy}, {parameters.get('price', 'quantile')}"
            yield f"| {name} | {'none' if limit == NO_LIMIT else f'{limit:g}'} | {' | '.join(cells)} |"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extreme_values", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4, 5, 6])
    options = parser.parse_args()
    warm_up_all()
    extreme: dict[str, Utility] = {f"{value:g}": Linear(value, value / 40) for value in VALUES}
    for line in table(options.seeds, extreme, two_kinds=False):
        print(line, flush=True)
    print()
    for line in table(options.seeds, {"much and nothing": SPLIT}, two_kinds=True):
        print(line, flush=True)


if __name__ == "__main__":
    main()
