"""The policies that are compared, each with its parameters and with or without standing bids."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from scheduling.model.types import Json
from scheduling.offline import Covers
from scheduling.policies.base import Policy
from scheduling.policies.standing import StandingRule
from scheduling.registry import make_policy

NEAR: Final[Json] = {"near_share": 0.125, "sooner": 1e-5}
"""Discounts of near slots and costs of later ones, as they were proposed before this benchmark."""
PLAIN: Final[Json] = {"near_share": 0.0, "sooner": 0.0}
COVERS: Final = {"dps": Covers.RIGID, "oasis": Covers.ELASTIC}
"""The schedules that a policy may choose; ANY for queues, which stop and move jobs."""
QUEUES: Final = ("srtf", "tiresias", "tiresias_l", "fifo", "drf", "antman")
MARKETS: Final = ("dps", "oasis")


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
    """Yield a market with its defaults, without what this benchmark is about, and with either rule and all of it."""
    yield Contender(policy, policy, {}, StandingRule())
    yield Contender(f"{policy} before", policy, {"price": "quantile", **PLAIN})
    yield Contender(f"{policy} standing", policy, {"price": "quantile", **PLAIN}, StandingRule())
    for price in ("quantile", "fluid"):
        yield Contender(f"{policy} {price}", policy, {"price": price, **NEAR}, StandingRule())


def contenders() -> list[Contender]:
    """Return every contender, markets first."""
    queues = [Contender(name, name, {}) for name in QUEUES]
    return [*(one for policy in MARKETS for one in markets(policy)), *queues]
