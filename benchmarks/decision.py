"""Duration of one DPS decision: `Dps.decide` with its counter-offer, and the commit with the update of the index."""

import time
from dataclasses import dataclass

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book
from scheduling.model.types import Floats
from scheduling.policies.dps import Dps
from studies.workloads.generated.dps import Setting, draw_bid, draw_inventory


@dataclass(frozen=True)
class Measurement:
    """Measured times of the bids after the first `filled`."""

    milliseconds: Floats
    """Time on the processor: one thread, so it is the time of one core whatever else the machine does."""
    wall: Floats
    """Milliseconds by the clock on the wall."""
    admitted: int
    filled: int
    full: float
    """Share of worker-slots in use at the end."""

    def quantile(self, share: float) -> float:
        """Milliseconds that this share of the decisions stayed within."""
        return float(np.quantile(self.milliseconds, share))


def measure(
    setting: Setting, policy: Dps, *, filled: int, measured: int, seed: int, per_slot: float | None = None
) -> Measurement:
    """Decide `filled + measured` bids in turn and time the last `measured`.

    The bids arrive evenly over the first half of the horizon, or `per_slot` at a time with a horizon that rolls.
    """
    rng = np.random.default_rng(seed)
    inventory = draw_inventory(setting, rng)
    ledger = Ledger(inventory, start=0, slots=setting.slots)
    history = np.zeros((0, len(inventory.resources)))
    taken: list[tuple[float, float]] = []
    admitted = 0
    count = filled + measured
    for i in range(count):
        now = int(i / per_slot) if per_slot else 0
        arrival = now if per_slot else i * setting.slots // (2 * count)
        bid = draw_bid(setting, inventory, rng, name=str(i), arrival=arrival)
        began, on_wall = time.thread_time(), time.perf_counter()
        ledger.advance(now)
        decision = policy.decide(bid, Book(now=now, ledger=ledger, history=history, decided=i))
        if decision.schedule is not None:
            ledger.commit(decision.schedule)
        passed = time.thread_time() - began, time.perf_counter() - on_wall
        history = np.concatenate([history, [decision.counted[0]]])[-HISTORY:]
        if i >= filled:
            taken.append(passed)
            admitted += decision.admitted
    workers = len(inventory.workers)
    full = ledger.used[..., :workers].sum() / (setting.slots * inventory.capacity[:, :workers].sum())
    on_core, on_wall_clock = 1e3 * np.array(taken).T
    return Measurement(milliseconds=on_core, wall=on_wall_clock, admitted=admitted, filled=filled, full=float(full))
