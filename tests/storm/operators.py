"""What an operator does while bids come: changes of policy, capacity, servers, clock and budgets, and pauses."""

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction

from accounts import teams
from accounts.models import Role, Team
from auctions.domain.credits import millionths
from auctions.domain.errors import AuctionError
from auctions.engine import budgets
from auctions.engine.markets import set_open
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.models import BudgetKind, Market
from cluster.clock import set_clock
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Cluster, Server
from scheduling import kernels
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.registry import make_policy

UNITS: Final = 8
"""Units of each resource that a server has at most."""
PAUSE_S: Final = 1.0
POLICIES: Final[tuple[tuple[str, Json], ...]] = (
    ("competition", {}),
    ("competition", {"restart": 1, "steps": 30}),
    ("competition", {"later": 0.0}),
    ("completions", {}),
    ("dps", {"initial_low": 0.01, "initial_high": 1.0}),
)
"""Policies whose bids state values; a market that has one of them changes to another."""
NEVER_MIND: Final = (AuctionError, InvalidField, ChangeRefused)
"""Refusals of changes, which leave everything as it was."""


def make_teams(users: list[User]) -> None:
    """Put half of the users into two teams with budgets, of which one is soon spent."""
    for name, credits, members in (("poor", 60.0, users[:2]), ("rich", 20_000.0, users[2:4])):
        team = teams.create_team(name, name.title())
        for user in members:
            teams.add_member(team, user, Role.BIDDER)
        budgets.set_budget(team, period=BudgetKind.MONTH, amount=millionths(credits))
    User.objects.create(username="operator", is_staff=True, is_superuser=True)


def change(market: str, what: str, seed: int) -> bool:
    """Do one of `KINDS` to a market; return whether it was accepted."""
    for name, parameters in POLICIES:  # as in a web process: a change does not compile under a market's lock
        kernels.warm_up(*kernels.needed_by(make_policy(name, parameters)))
    found = Market.objects.select_related("cluster").get(cluster__name=market)
    try:
        KINDS[what](found, np.random.default_rng(seed))
    except NEVER_MIND:
        return False
    return True


def make_whole(market: Market) -> None:
    """Give each server the capacity that it had at most, so that rows can be compared with it."""
    with checked_change(market.cluster):
        Capacity.objects.filter(server__cluster=market.cluster).exclude(server__name="cloud").update(amount=UNITS)


def _policy(market: Market, rng: np.random.Generator) -> None:
    name, parameters = POLICIES[int(rng.integers(len(POLICIES)))]
    change_policy(market, name=name, parameters=dict(parameters), by=None)


def _capacity(market: Market, rng: np.random.Generator) -> None:
    rows = list(Capacity.objects.filter(server__cluster=market.cluster).exclude(server__name="cloud").order_by("pk"))
    with checked_change(Cluster.objects.get(pk=market.cluster_id)):
        row = rows[int(rng.integers(len(rows)))]
        Capacity.objects.filter(pk=row.pk).update(amount=int(rng.integers(UNITS // 2, UNITS + 1)))


def _server(market: Market, rng: np.random.Generator) -> None:
    servers = list(Server.objects.filter(cluster=market.cluster).exclude(name="cloud").order_by("pk"))
    server = servers[int(rng.integers(len(servers)))]
    if rng.random() < 0.5:
        lose_server(server, reason="fan", by=None)
    else:
        drain_server(server, reason="", by=None)
    time.sleep(PAUSE_S * float(rng.uniform(0.0, 8.0)))
    restore_server(server, reason="", by=None)


def _pause(market: Market, rng: np.random.Generator) -> None:
    """Let the market take no bids for a while, or its clock stand."""
    if rng.random() < 0.5:
        set_open(market, False)
        time.sleep(PAUSE_S)
        set_open(market, True)
    else:
        set_clock(market.cluster, running=False)
        time.sleep(PAUSE_S)
        set_clock(market.cluster, running=True)


def _budget(market: Market, rng: np.random.Generator) -> None:
    """Grant credits to a team, or take some back."""
    team = Team.objects.order_by("pk")[int(rng.integers(2))]
    with transaction.atomic():
        amount = millionths(float(rng.choice([-500.0, -20.0, 5.0, 40.0, 300.0])))
        budgets.grant(team, amount, by=User.objects.get(username="operator"))


KINDS: Final[dict[str, Callable[[Market, np.random.Generator], None]]] = {
    "policy": _policy,
    "capacity": _capacity,
    "server": _server,
    "pause": _pause,
    "budget": _budget,
}
