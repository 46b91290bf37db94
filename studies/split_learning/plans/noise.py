"""Effect of noise on a plan: the same assignment under many random draws of the times."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Final

import numpy as np

from auctions.state.recent import Recent
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown
from scheduling.split_learning.noise import Noisy, under_noise
from studies.models import Plan
from studies.split_learning.plans.readings import core_plan, result_in

SPREAD: Final = 0.2
LARGEST_SPREAD: Final = 0.9
DRAWS: Final = 20
MOST_DRAWS: Final = 1000
MOST_CELLS: Final = 1_000_000
"""Largest draws x clients x (helpers + clients / TOGETHER) of a request: about two seconds of one core."""
TOGETHER: Final = 100
"""Clients on one helper that cost as much time as one more helper: the search orders all of them."""
FEW_CELLS: Final = 200_000
"""The same limit if the request names no number of draws."""
FEWEST_DRAWS: Final = 3
MOST_KEPT: Final = 100
"""Largest number of results that a process remembers."""
KINDS: Final = ("priorities", "first_come", "replanned", "bound")
"""Fields of a draw; `Noisy` explains them."""


@dataclass(frozen=True)
class Draws:
    """Parameters of a request."""

    spread: float
    """Each time is multiplied by its own factor, uniform in 1 - spread to 1 + spread."""
    count: int
    seed: int = 0

    @classmethod
    def of_query(cls, plan: Plan, query: Mapping[str, str]) -> "Draws":
        """Read `spread`, `draws` and `seed`, which are optional strings; raises InvalidField."""
        most = min(MOST_DRAWS, max(FEWEST_DRAWS, MOST_CELLS // _cells(plan)))
        return cls(
            spread=_spread(query.get("spread", str(SPREAD))),
            count=_whole("draws", query.get("draws", str(few_draws(plan))), low=1, high=most),
            seed=_whole("seed", query.get("seed", "0"), low=0, high=10**9),
        )


@dataclass(frozen=True)
class Makespans:
    """Makespans over all draws, slots."""

    mean: float
    worst: int


@dataclass(frozen=True)
class Noise:
    """The result of all draws."""

    parameters: Draws
    planned: int
    """Planned makespan, slots."""
    draws: tuple[Noisy, ...]

    @property
    def priorities(self) -> Makespans:
        """Makespans if helpers follow the priorities of the plan."""
        return self.makespans("priorities")

    @property
    def first_come(self) -> Makespans:
        """Makespans if helpers run passes in order of arrival."""
        return self.makespans("first_come")

    @property
    def replanned(self) -> Makespans:
        """Makespans if helpers get new priorities, made for the drawn times."""
        return self.makespans("replanned")

    @property
    def bound(self) -> Makespans:
        """The longest paths that no assignment avoids, with the drawn times."""
        return self.makespans("bound")

    def makespans(self, kind: str) -> Makespans:
        """Return the makespans of one of KINDS over all draws."""
        found = [getattr(draw, kind) for draw in self.draws]
        return Makespans(mean=float(np.mean(found)), worst=int(max(found)))


_results: Final[Recent[tuple[int, datetime, Draws], Noise]] = Recent(MOST_KEPT)


def few_draws(plan: Plan) -> int:
    """Return the default number of draws."""
    return min(DRAWS, max(FEWEST_DRAWS, FEW_CELLS // _cells(plan)))


def noise_of(plan: Plan, parameters: Draws) -> Noise:
    """Draw times and compute makespans; recent results are remembered, since a page needs them several times.

    Raises NothingYet if there is no plan, and InvalidField naming `spread` if times would be too long for an instance.
    """
    result_in(plan)
    return _results.made_once((plan.pk, plan.submitted_at, parameters), lambda: _noise_of(plan, parameters))


def _noise_of(plan: Plan, parameters: Draws) -> Noise:
    core, rng = core_plan(plan), np.random.default_rng(parameters.seed)
    try:
        draws = tuple(under_noise(core, parameters.spread, rng) for _ in range(parameters.count))
    except InvalidField as error:
        problem = f"expected a spread with times that an instance may have, got {parameters.spread:.4g}: {error}"
        raise InvalidField("spread", problem) from None
    return Noise(parameters, core.makespan, draws)


def _cells(plan: Plan) -> int:
    """Return the cost of one draw, as if all clients were on one helper."""
    return plan.clients * (plan.helpers + plan.clients // TOGETHER)


def _spread(text: str) -> float:
    try:
        spread = float(text) if len(text) <= 20 and text.isascii() and "_" not in text else None
    except ValueError:
        spread = None
    if spread is None or not isfinite(spread) or not 0 <= spread <= LARGEST_SPREAD:
        raise InvalidField("spread", f"expected a number from 0 to {LARGEST_SPREAD}, got {shown(text)}")
    return spread


def _whole(name: str, text: str, *, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12) or not low <= int(text) <= high:
        raise InvalidField(name, f"expected a whole number from {low} to {high}, got {shown(text)}")
    return int(text)
