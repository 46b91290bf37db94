"""What is known of whole machines side by side: patterns that fit a slot, and rules that all patterns follow."""

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.offline.elastic_machines import Machines, SideBySide
from scheduling.offline.elastic_slot import Slots
from scheduling.rows import Rows

Runs = tuple[int, ...]

CLOSE = 4e-6
"""Rules are a little loose, for the rounding of the solver."""
SLOT_S = 2.0
"""For the most of one slot."""
DIGITS = 9
"""Of weights that are told apart."""


class Patterns:
    """Of one system of servers and jobs; kept from one question to the next."""

    def __init__(self, machines: Machines) -> None:
        self.machines = machines
        self.slots = Slots(machines)
        self._found: list[tuple[Ints, int]] = []
        self._rules: list[tuple[Floats, float, int]] = []
        self._asked: set[tuple[int, bytes]] = set()
        self._gaps: list[tuple[Ints, int]] = []
        self._seen: set[tuple[int, bytes]] = set()
        self._fitting: dict[tuple[int, Runs], tuple[int, dict[bytes, Ints]]] = {}
        self._binding: dict[tuple[int, Runs], tuple[int, dict[bytes, tuple[Floats, float]]]] = {}

    @property
    def count(self) -> int:
        """How many patterns and rules are known."""
        return len(self._found) + len(self._rules)

    def search(self, t: int, weights: Floats, seconds: float, limits: Ints | None = None) -> float | None:
        """Keep what `Slots.most` finds for weights that are not all 0; None if that is known already, or not found.

        Otherwise the most, for weights of which the largest is 1.
        """
        weights = weights / weights.max()
        key = t, np.round(weights, DIGITS).tobytes()
        if limits is None:
            if key in self._asked:
                return None
            self._asked.add(key)
        pattern, most = self.slots.most(t, weights, seconds, limits)
        if limits is None and np.isfinite(most):
            self._rules.append((weights, most, t))
        if pattern is not None and (t, pattern.tobytes()) not in self._seen:
            self._seen.add((t, pattern.tobytes()))
            self._found.append((pattern, t))
        return most if np.isfinite(most) else None

    def settles(self, t: int, runs: Runs, weights: Floats) -> bool:
        """Whether a known pattern comes to as much as the rules allow."""
        best = max((float(weights @ workers) for workers in self.fitting(t, runs)), default=0.0)
        rows = Rows()
        counts = {
            r: rows.column(0.0, float(self.machines.runs[r].most), cost=-float(weights[r]), whole=False) for r in runs
        }
        for rule, most in self.binding(t, runs):
            rows.row([(counts[r], float(rule[r])) for r in np.flatnonzero(rule).tolist()], high=most)
        return -rows.relax().cost <= best * (1.0 + CLOSE)

    def has(self, t: int, workers: Ints) -> bool:
        """Whether a pattern is known for so many."""
        runs = np.flatnonzero(workers).tolist()
        fits = (slot for pattern, slot in self._found if (pattern >= workers).all())
        return not runs or any(self.slots.allows(t, slot, runs) for slot in fits)

    def add_gap(self, t: int, workers: Ints) -> None:
        """There is no pattern for so many in this slot, and in those that allow no more."""
        self._gaps.append((workers, t))

    def gaps(self, t: int, runs: Runs) -> list[Ints]:
        """Numbers of workers for which there is no pattern in a slot in which only these runs go on."""
        others = 1 - self._mask(runs)
        return [
            workers
            for workers, slot in self._gaps
            if not (workers * others).any() and self.slots.allows(slot, t, np.flatnonzero(workers).tolist())
        ]

    def fitting(self, t: int, runs: Runs) -> list[Ints]:
        """Patterns of these runs that fit a slot, each once."""
        count, found = self._fitting.get((t, runs), (0, {}))
        mask = self._mask(runs)
        for pattern, slot in self._found[count:]:
            workers = pattern * mask
            if workers.any() and self.slots.allows(t, slot, np.flatnonzero(workers).tolist()):
                found[workers.tobytes()] = workers
        self._fitting[t, runs] = len(self._found), found
        return list(found.values())

    def binding(self, t: int, runs: Runs) -> list[tuple[Floats, float]]:
        """Weights and the most they come to in a slot in which only these runs go on."""
        count, found = self._binding.get((t, runs), (0, {}))
        mask = self._mask(runs)
        for rule, most, slot in self._rules[count:]:
            weights = rule * mask
            key = weights.tobytes()
            tighter = (weights > 0.0).any() and most < found.get(key, (weights, np.inf))[1]
            if tighter and self.slots.allows(slot, t, np.flatnonzero(weights).tolist()):
                found[key] = weights, most
        self._binding[t, runs] = len(self._rules), found
        return list(found.values())

    def rule(self, t: int, weights: Floats, most: float) -> SideBySide:
        """What holds in a slot, and in all that allow no more."""
        runs = np.flatnonzero(weights).tolist()
        slots = range(self.machines.question.slots)
        return SideBySide(weights, most, frozenset(other for other in slots if self.slots.allows(t, other, runs)))

    def _mask(self, runs: Runs) -> Ints:
        mask = np.zeros(len(self.machines.runs), dtype=np.int64)
        mask[list(runs)] = 1
        return mask
