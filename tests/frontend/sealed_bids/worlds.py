"""Worlds: markets that differ in what others state, and that are gone afterwards."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine import decision_queue
from auctions.engine.markets import open_market
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, Market
from auctions.readings import certificates, sums
from auctions.state import book
from cluster.models import Capacity, ServerKind
from scheduling.policies.base import Objective
from tests.auctions.worlds import PRICED, SLOT_S, body, make_cluster, set_time
from tests.rows import taken_back

PEOPLE = ("alice", "bob", "carol", "dave", "erin")
OTHERS = PEOPLE[1:]
NUMBERS = (1, 2)
"""Numbers of bids: the first is Alice's, the second Bob's."""


@dataclass
class World:
    """A market with its people; what each of the others states is a parameter of the world."""

    market: Market
    people: dict[str, User]
    stated: dict[str, float]

    def bid(self, who: str, **changes: Any) -> Bid:
        """One of the others submits what this world has it state, and is decided."""
        return self.bid_of(who, self.stated[who], **changes)

    def bid_of(self, who: str, value: float, **changes: Any) -> Bid:
        asked = body(value, **changes)
        if not self.pays:
            asked = {**{name: part for name, part in asked.items() if name != "utility"}, "weight": value}
        sent = submit_bid(cluster=self.market.cluster, owner=self.people[who], body=asked).bid
        decision_queue.process_pending(self.market.pk)
        sent.refresh_from_db()
        return sent

    @property
    def pays(self) -> bool:
        return policy_in_force(self.market.cluster).objective is Objective.WELFARE

    def pass_to(self, slot: int) -> None:
        set_time(self.market, slot * SLOT_S)
        pass_slots(self.market.pk)
        certificates.renew(self.market.pk)


def _forget() -> None:
    """Forget what this process remembers of markets: a world that is gone may have had the same token and version."""
    book.forget()
    sums.forget()


@contextmanager
def world(people: dict[str, User], policy: str, parameters: Any) -> Iterator[World]:
    """A market that is gone, down to its keys, when the block ends."""
    _forget()
    with taken_back():
        cluster = make_cluster(units=8, horizon=12)
        if policy == "oasis":  # workers and parameter servers apart
            Capacity.objects.filter(server__name="cloud", resource__name="gpu").delete()
            Capacity.objects.filter(server__kind=ServerKind.EDGE, resource__name="ps").delete()
        yield World(open_market(cluster, policy=policy, parameters=parameters), people, {})
    _forget()


@contextmanager
def stating(found: World, stated: dict[str, float]) -> Iterator[World]:
    """A world in which the others state this from now on; it is gone when the block ends."""
    _forget()
    with taken_back():
        market = Market.objects.select_related("cluster").get(pk=found.market.pk)
        yield World(market, found.people, stated)
    _forget()


POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "DPS, quantile prices": ("dps", {**PRICED}),
    "DPS, fluid prices": ("dps", {**PRICED, "price": "fluid"}),
    "DPS, paper prices": ("dps", {**PRICED, "price": "paper", "eta_worker": [3.0], "eta_ps": [2.0]}),
    "DPS, paper prices of past bids": ("dps", {**PRICED, "price": "paper"}),
    "OASiS": ("oasis", {**PRICED}),
    "OASiS, fluid prices": ("oasis", {**PRICED, "price": "fluid"}),
    "OASiS, paper prices of past bids": ("oasis", {**PRICED, "price": "paper"}),
    "OASiS, paper prices": ("oasis", {**PRICED, "price": "paper", "log_low": [-9.0, -9.0], "log_high": [1.0, 1.0]}),
    "completions": ("completions", {**PRICED}),
    "competition": ("competition", {}),
    "weighted completion": ("weighted_completion", {}),
    "FIFO": ("fifo", {}),
    "preemptive": ("preemptive", {}),
}
POLICIES_WITH_PRICES = tuple(name for name, (policy, _) in POLICIES.items() if policy in ("dps", "oasis"))
SUMS = re.compile(r"clusters/lab/(welfare|summary)$|tiles|figures/(welfare|flow)|^/$|^/markets/lab/$")
"""Addresses with sums."""
FIGURES = re.compile(rf"{SUMS.pattern}|/prices|/utilisation|figures/|/bids")
"""All that moves with the market."""
