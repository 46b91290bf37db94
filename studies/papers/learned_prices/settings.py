"""Two periods on the same servers: bids of the one to learn from, bids of the other to be judged by.

Jobs and servers follow the papers' own settings (`studies.workloads`), but bids come all through a period and the
horizon rolls with them, as in a live market: a bid may use the slots of one horizon from its arrival on.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from studies.workloads.generated import dps, oasis

POLICIES = ("dps", "oasis")


@dataclass(frozen=True)
class Setting:
    """A market and its bids; each period is drawn from a seed of its own, the servers from the judged one's."""

    name: str
    policy: str
    """`dps` or `oasis`: whose jobs, servers and policy."""
    servers: int
    """Edge servers, a cloud on top (DPS); servers of each pool (OASiS)."""
    horizon: int
    """Slots."""
    period: int
    """Slots over which bids arrive."""
    bids: int
    """Number of bids in a period."""
    contended: bool
    utility: str = "sigmoid"
    """DPS: `sigmoid`, `linear` or `inverse`."""
    spread: float = 0.0
    """Every value is multiplied by a log-normal draw with this deviation, of mean 1."""

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InvalidField("policy", f"expected one of {', '.join(POLICIES)}, got {self.policy!r}")
        for name in ("servers", "horizon", "period", "bids"):
            if getattr(self, name) < 1:
                raise InvalidField(name, f"expected a whole number of at least 1, got {getattr(self, name)}")
        if self.spread < 0:
            raise InvalidField("spread", f"expected at least 0, got {self.spread}")


def _dps(name: str, bids: int, *, contended: bool = True, servers: int = 20, **more: Any) -> Setting:
    return Setting(name, "dps", servers, horizon=100, period=100, bids=bids, contended=contended, **more)


def _oasis(name: str, bids: int, *, contended: bool = True, servers: int = 50, **more: Any) -> Setting:
    return Setting(name, "oasis", servers, horizon=100, period=100, bids=bids, contended=contended, **more)


SETTINGS = (
    _dps("idle", 20, contended=False),
    _dps("load x 1", 60, contended=False),
    _dps("load x 2", 120),
    _dps("load x 4", 240),
    _dps("load x 8", 480),
    _dps("few servers", 160, servers=5),
    _dps("linear", 240, utility="linear"),
    _dps("inverse", 240, utility="inverse"),
    _dps("wide", 240, spread=1.0),
    _oasis("idle", 20, contended=False),
    _oasis("load x 1", 40, contended=False),
    _oasis("load x 2", 80),
    _oasis("load x 4", 160),
    _oasis("load x 8", 320),
    _oasis("few servers", 100, servers=10),
    _oasis("wide", 160, spread=1.0),
)
"""Load x 1 is about the most of which paper prices turn hardly anybody away; the others are multiples of it."""


@dataclass(frozen=True)
class Period:
    """Bids in order of arrival, and the machines they may use."""

    inventory: Inventory
    bids: tuple[Bid, ...]


def periods(setting: Setting, *, learned: int, judged: int) -> tuple[Period, Period]:
    """The period to learn from and the one to judge by, from a seed each; the same servers in both.

    Raises
    ------
    InvalidField
        If both seeds are the same: that would be to learn from what is judged.
    """
    if learned == judged:
        raise InvalidField("learned", f"expected another seed than that of the judged period, got {learned} for both")
    before, after = np.random.default_rng(learned), np.random.default_rng(judged)
    if setting.policy == "dps":
        market = dps.Setting(servers=setting.servers, slots=setting.horizon, utility=dps.UtilityForm(setting.utility))
        inventory = dps.draw_inventory(market, after)
        return _dps_period(setting, market, inventory, before), _dps_period(setting, market, inventory, after)
    share = setting.period / setting.horizon
    system = oasis.Setting(servers=setting.servers, slots=setting.horizon, jobs=setting.bids, arrivals=share)
    past, now = oasis.draw(system, before), oasis.draw(system, after)
    # In OASiS each job brings its own machine types, so only the servers are carried over.
    inventory = replace(past.inventory, capacity=now.inventory.capacity)
    return (
        Period(inventory, _spread(setting, past.bids, before)),
        Period(now.inventory, _spread(setting, now.bids, after)),
    )


def _dps_period(setting: Setting, market: dps.Setting, inventory: Inventory, rng: np.random.Generator) -> Period:
    arrivals = np.sort(rng.integers(0, setting.period, setting.bids)).tolist()
    bids = (dps.draw_bid(market, inventory, rng, name=str(i), arrival=slot) for i, slot in enumerate(arrivals))
    return Period(inventory, _spread(setting, tuple(bids), rng))


def _spread(setting: Setting, bids: tuple[Bid, ...], rng: np.random.Generator) -> tuple[Bid, ...]:
    if not setting.spread:
        return bids
    factors = np.exp(rng.normal(-(setting.spread**2) / 2, setting.spread, len(bids))).tolist()
    return tuple(replace(bid, utility=bid.utility.scaled(x)) for bid, x in zip(bids, factors, strict=True))
