"""Two teams with budgets that spend in two markets at once: prepare bids, decide those of a market, and count.

Run as `python -m tests.faults.spending prepare COUNT | decide CLUSTER START | verdict` in the environment of the
processes under test.
"""

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

MARKETS: Final = ("lab", "hall")
TEAMS: Final = {"vision": 2.0, "speech": 1.0}
"""Credits of each team: less than all of its bids cost."""


def main(what: str, *arguments: str) -> None:
    """Print the answer to one command as JSON."""
    commands: dict[str, Any] = {"prepare": _prepare, "decide": _decide, "verdict": _verdict}
    print(json.dumps(commands[what](*arguments)), flush=True)


def _prepare(count: str) -> None:
    from accounts import teams
    from accounts.models import Role
    from auctions.domain.credits import millionths
    from auctions.engine import budgets
    from auctions.models import BudgetKind
    from tests.auctions.worlds import make_cluster, make_market, make_user, submit

    people = []
    for name, credits in TEAMS.items():
        team, user = teams.create_team(name, name.title()), make_user(name)
        teams.add_member(team, user, Role.BIDDER)
        budgets.set_budget(team, period=BudgetKind.YEAR, amount=millionths(credits))
        people.append(user)
    for i, cluster in enumerate(MARKETS):
        market = make_market(make_cluster(cluster, servers=6, units=8, horizon=40))
        for number in range(int(count)):  # the first bid of one market is of the team that is second in the other
            submit(market, people[(i + number) % len(people)], 1e4, epochs=1 + number % 5)


def _decide(cluster: str, start: str) -> int:
    from auctions.engine import decision_queue
    from auctions.kernels import warming
    from auctions.models import Market
    from auctions.state import book

    market = Market.objects.get(cluster__name=cluster)
    warming.check_market(market.pk)
    book.private_copy(market, now=market.now)
    print("ready", flush=True)
    while not Path(start).exists():
        time.sleep(0.001)
    return decision_queue.process_pending(market.pk)


def _verdict() -> dict[str, Any]:
    from auctions.history.audit import audit_market, audit_teams
    from auctions.models import Bid, BidState, BudgetPeriod, CreditTransaction, DecisionRecord, Market

    found = [*audit_teams(), *(one for market in Market.objects.all() for one in audit_market(market))]
    holds = CreditTransaction.objects.order_by("pk").values_list("bid__market__cluster__name", flat=True)
    spent = [name for name in holds if name is not None]
    return {
        "undecided": Bid.objects.filter(state=BidState.SUBMITTED).count(),
        "broken": {one.check: list(one.rows) for one in found if not one.passed},
        "left": {str(one.team.name): one.granted - one.taken for one in BudgetPeriod.objects.all()},
        "over_budget": sum('"over_budget"' in one.receipt for one in DecisionRecord.objects.all()),
        "turns": sum(a != b for a, b in itertools.pairwise(spent)),
    }


if __name__ == "__main__":
    import django

    django.setup()
    main(*sys.argv[1:])
