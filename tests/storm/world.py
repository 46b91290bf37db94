"""The markets of a storm and their rows; each command runs in the environment of the installation.

`python -m tests.storm.world prepare` opens markets and prints names and tokens. `settle` waits until no bid waits.
`change MARKET KIND SEED` does what an operator does. `verdict FILE` counts what is wrong, given what clients were
answered.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.processes import ROOT

POLICIES: Final = ("competition", "dps", "completions", "weighted_completion", "preemptive")
CLIENTS: Final = 8
SPEED: Final = 20.0
"""Slots of 100 s begin every five seconds."""
LONGEST_SETTLE_S: Final = 1800.0


def prepare(policies: list[str]) -> dict[str, Any]:
    """Open a market for each of these policies; return them, whether their bids state values, and tokens."""
    from django.contrib.auth.models import User

    from accounts.tokens import NewToken, issue
    from auctions.domain.bid_conversion import policy_in_force
    from auctions.engine.markets import open_market
    from cluster.clock import set_clock
    from scheduling.policies.base import Objective
    from tests.auctions.worlds import make_cluster
    from tests.storm.operators import UNITS, make_teams

    markets = []
    for policy in policies:
        cluster = make_cluster(f"storm-{policy.replace('_', '-')}", servers=10, units=UNITS, horizon=40)
        open_market(cluster, policy=policy)
        set_clock(cluster, running=True, speed=SPEED)
        markets.append([cluster.name, policy_in_force(cluster).objective is Objective.WELFARE])
    users = [User.objects.create(username=f"client-{number}") for number in range(CLIENTS)]
    make_teams(users)
    return {"markets": markets, "tokens": [issue(user, NewToken("storm")).text for user in users]}


def settle() -> int:
    """Wait until no bid waits; then stop the clocks. Return the number of bids that still wait."""
    from auctions.models import Bid, BidState, Market
    from cluster.clock import set_clock

    waiting = Bid.objects.filter(state=BidState.SUBMITTED)
    until = time.monotonic() + LONGEST_SETTLE_S
    while (left := waiting.count()) and time.monotonic() < until:
        time.sleep(0.3)
    for market in Market.objects.select_related("cluster"):
        set_clock(market.cluster, running=False)
    return left


def verdict(
    answered: Mapping[str, list[int]], withdrawn: Sequence[tuple[str, int]] = (), *, is_copy: bool = False
) -> dict[str, Any]:
    """Count what is wrong, given the numbers of the bids that were answered by market and key, and those of the bids
    whose withdrawal was answered, each with its market.

    In a copy that was made while bids came, bids may wait, and there may be bids that were not answered yet. Archives
    are replayed. Of a bid that is archived the audit compares what is left with its seal.
    """
    from auctions.engine.slots import pass_slots
    from auctions.history.audit import audit_teams
    from auctions.history.audit_archives import archive_replays
    from auctions.models import Bid, BidState, Event, EventKind, Market, Seal
    from tests.histories.invariants import broken_rows
    from tests.storm.operators import make_whole

    lost, doubled, broken, bids = [], [], [], 0
    seals = Seal.objects.order_by("market", "number")
    for market in Market.objects.order_by("pk"):
        pass_slots(market.pk)
        make_whole(market)
        market.refresh_from_db()
        stored: dict[str, list[int]] = {}
        name = market.cluster.name
        rows = Bid.objects.filter(market=market).order_by("sequence")
        for number, key in rows.values_list("sequence", "idempotency_key"):
            stored.setdefault(f"{name} {str(key).partition(' ')[0]}", []).append(number)
            bids += 1
        known = {key: numbers for key, numbers in answered.items() if key.startswith(f"{name} ")}
        lost += [f"{key}: {numbers}" for key, numbers in known.items() if not set(numbers) <= set(stored.get(key, ()))]
        doubled += [f"{key}: {stored[key]}" for key in known.keys() & stored if len(stored[key]) > len(known[key])]
        doubled += [f"nobody was answered {key}" for key in stored.keys() - known.keys() if not is_copy]
        if not is_copy:
            lost += [f"bid {number} waits" for number in rows.filter(state=BidState.SUBMITTED).values_list("sequence")]
        decisions = Event.objects.filter(market=market, kind__in=(EventKind.ADMITTED, EventKind.REJECTED))
        twice = Counter(decisions.values_list("bid__sequence", flat=True))
        doubled += [f"bid {number} of {name} was decided {count} times" for number, count in twice.items() if count > 1]
        ended = {number for one, number in withdrawn if one == name}
        kept = rows.filter(sequence__in=ended).exclude(state=BidState.WITHDRAWN).values_list("sequence", "state")
        broken += [f"bid {number} of {name} was withdrawn, and is {state}" for number, state in kept]
        broken += [f"{name}: {problem}" for problem in broken_rows(market)]
        for seal in seals.filter(market=market):
            broken += [f"{name}: {problem}" for problem in archive_replays(market, seal)]
    broken += [f"{one.check}: {row}" for one in audit_teams() for row in one.rows[:3]]
    archived = Bid.objects.exclude(seal=None).count()
    counts = {"bids": bids, "archives": seals.count(), "archived": archived}
    return counts | {"lost": lost, "doubled": doubled, "broken": broken}


def main(arguments: list[str]) -> None:
    """Answer one command with a line of JSON."""
    import django

    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    match arguments:
        case ["prepare", *policies]:
            answer: Any = prepare(policies or list(POLICIES))
        case ["settle"]:
            answer = settle()
        case ["verdict", file, *copy]:
            with open(file, encoding="ascii") as kept:
                answer = verdict(**json.load(kept), is_copy=bool(copy))
        case ["change", market, what, seed]:
            from tests.storm.operators import change

            answer = change(market, what, int(seed))
        case _:
            raise SystemExit(f"unknown command: {arguments}")
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
