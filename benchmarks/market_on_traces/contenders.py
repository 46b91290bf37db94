"""The policies that are compared, each with its parameters and with or without standing bids."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduling.model.types import Json
from scheduling.offline import Covers
from scheduling.policies.base import Policy
from scheduling.policies.standing import StandingRule, rule_for
from scheduling.pricing.pooling import NO_LIMIT
from scheduling.registry import make_policy

PLAIN: Final[Json] = {"price": "quantile", "near_share": 0.0, "sooner": 0.0}
"""Quantile prices that do not depend on how far ahead a slot is."""
BEFORE: Final[Mapping[str, Json]] = {
    "dps": {**PLAIN, "refit_every": 32, "initial_low": 0.01, "initial_high": 1.0, "offer_limit": NO_LIMIT},
    "oasis": {**PLAIN, "refit_every": 8, "initial_low": 0.001, "initial_high": 1.0, "offer_limit": NO_LIMIT},
}
"""The defaults before they were tuned for this benchmark."""
COVERS: Final = {"dps": Covers.RIGID, "oasis": Covers.ELASTIC}
"""The schedules that a policy may choose; ANY for all others, so that they are compared with one bound."""
QUEUES: Final = ("srtf", "tiresias", "tiresias_l", "fifo", "drf", "antman", "preemptive", "batch_sche", "dorm")
"""Policies that do not look at values."""
STATED: Final = ("rrh", "weighted_completion")
"""Policies that order jobs by stated values and take no payment, so that nobody has a reason to state the truth. They
count among all policies, and not among the queues."""
MARKETS: Final = ("dps", "oasis", "completions", "competition")


@dataclass(frozen=True)
class Contender:
    """A policy with its parameters."""

    name: str
    policy: str
    parameters: Any
    standing: StandingRule | None = None

    def make(self) -> Policy:
        """Return the policy."""
        return make_policy(self.policy, self.parameters)

    @property
    def covers(self) -> Covers:
        """The schedules that the policy may choose."""
        return COVERS.get(self.policy, Covers.ANY)

    def to_json(self) -> Json:
        """Return what a result depends on."""
        standing = None if self.standing is None else self.standing.to_json()
        return {"policy": self.policy, "parameters": self.make().to_json(), "standing": standing}


def markets(policy: str) -> Iterator[Contender]:
    """Yield a market with its defaults and standing bids, as it was before it had either, and between."""
    yield Contender(policy, policy, {}, StandingRule())
    yield Contender(f"{policy} before", policy, BEFORE[policy])
    yield Contender(f"{policy} final", policy, {})
    yield Contender(f"{policy} plain", policy, PLAIN, StandingRule())
    yield Contender(f"{policy} fluid", policy, {"price": "fluid"}, StandingRule())


def contenders() -> list[Contender]:
    """Return every contender, markets first."""
    others = [Contender(name, name, {}) for name in (*QUEUES, *STATED)]
    completions = Contender("completions", "completions", {}, StandingRule())
    competition = Contender("competition", "competition", {}, rule_for(make_policy("competition", {})))
    return [*markets("dps"), *markets("oasis"), completions, competition, *others]
