"""What noise does to a plan: the same assignment under times that turn out otherwise, drawn again and again."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Final

import numpy as np
from django.core.cache import cache

from scheduling.model.errors import InvalidField
from scheduling.split_learning.noise import Noisy, under_noise
from studies.models import Plan
from studies.split_learning.plans.stored import core_plan, result_in

SPREAD: Final = 0.2
LARGEST_SPREAD: Final = 0.9
DRAWS: Final = 20
MOST_DRAWS: Final = 1000
MOST_CELLS: Final = 1_000_000
"""Draws x clients x (helpers + clients / TOGETHER) that a request may ask for: two seconds of one core or so."""
TOGETHER: Final = 100
"""Clients of one helper that take as long as one on one helper more: orders are looked for among all of them."""
FEW_CELLS: Final = 200_000
"""The same where nobody says how many draws there should be."""
FEWEST_DRAWS: Final = 3
KEPT_S: Final = 600
KINDS: Final = ("priorities", "first_come", "replanned", "bound")
"""Fields of a draw; `Noisy` says what they are."""


@dataclass(frozen=True)
class Draws:
    """What is asked."""

    spread: float
    """Each time is multiplied by a factor of its own, uniform in 1 - spread to 1 + spread."""
    count: int
    seed: int = 0

    @classmethod
    def of_query(cls, plan: Plan, query: Mapping[str, str]) -> "Draws":
        """Read `spread`, `draws` and `seed`, all texts that may be missing; raises InvalidField."""
        most = min(MOST_DRAWS, max(FEWEST_DRAWS, MOST_CELLS // _cells(plan)))
        return cls(
            spread=_spread(query.get("spread", str(SPREAD))),
            count=_whole("draws", query.get("draws", str(few_draws(plan))), low=1, high=most),
            seed=_whole("seed", query.get("seed", "0"), low=0, high=10**9),
        )


@dataclass(frozen=True)
class Noise:
    """What came of it."""

    asked: Draws
    planned: int
    """What the plan said, slots."""
    draws: tuple[Noisy, ...]

    def mean(self, kind: str) -> float:
        """Mean makespan of one of KINDS, slots."""
        return float(np.mean([getattr(draw, kind) for draw in self.draws]))

    def worst(self, kind: str) -> int:
        """The longest makespan of one of KINDS, slots."""
        return int(max(getattr(draw, kind) for draw in self.draws))


def few_draws(plan: Plan) -> int:
    """How many are made where nobody says it."""
    return min(DRAWS, max(FEWEST_DRAWS, FEW_CELLS // _cells(plan)))


def noise_of(plan: Plan, asked: Draws) -> Noise:
    """Draw; what was drawn lately is remembered, since pages ask for it several times. Raises NothingYet.

    And InvalidField naming `spread`, if times would be longer than an instance may have.
    """
    result_in(plan)
    key = f"plan-noise/{plan.pk}/{plan.submitted_at.timestamp()}/{asked.spread}/{asked.count}/{asked.seed}"
    found: Noise | None = cache.get(key)
    if found is None:
        core, rng = core_plan(plan), np.random.default_rng(asked.seed)
        try:
            draws = tuple(under_noise(core, asked.spread, rng) for _ in range(asked.count))
        except InvalidField as error:
            problem = f"times {asked.spread:.4g} longer are more than an instance may have: {error}"
            raise InvalidField("spread", problem) from None
        found = Noise(asked, core.makespan, draws)
        cache.set(key, found, KEPT_S)
    return found


def _cells(plan: Plan) -> int:
    """Of one draw, as if all clients were on one helper."""
    return plan.clients * (plan.helpers + plan.clients // TOGETHER)


def _spread(text: str) -> float:
    try:
        spread = float(text) if len(text) <= 20 and text.isascii() and "_" not in text else None
    except ValueError:
        spread = None
    if spread is None or not isfinite(spread) or not 0 <= spread <= LARGEST_SPREAD:
        raise InvalidField("spread", f"expected a number from 0 to {LARGEST_SPREAD}")
    return spread


def _whole(name: str, text: str, *, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 12) or not low <= int(text) <= high:
        raise InvalidField(name, f"expected a whole number from {low} to {high}")
    return int(text)
