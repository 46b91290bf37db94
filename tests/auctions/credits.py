"""Budgets of teams in tests: set one, read its sums, and a slow twin of what is left."""

from accounts.models import Team
from auctions.domain.credits import MILLION, millionths
from auctions.engine import budgets
from auctions.history.audit import audit_market, audit_teams
from auctions.models import Bid, Budget, BudgetKind, Event, EventKind, Market
from auctions.readings import statements
from cluster import clock
from scheduling.model.decision import parse


def limit(team: Team, credits: float, period: BudgetKind = BudgetKind.MONTH) -> Budget:
    return budgets.set_budget(team, period=period, amount=millionths(credits))


def sums(team: Team) -> dict[str, float]:
    found = statements.statement_of(team, clock.now())
    assert found is not None
    names = ("granted", "held", "charged", "refunded", "left")
    return {name: getattr(found, name) / MILLION for name in names}


def assert_sound(*markets: Market) -> None:
    for market in markets:
        assert [one for one in audit_market(market) if not one.passed] == []
    assert [one for one in audit_teams() if not one.passed] == []


class Twin:
    """What each team has left, recomputed from the events of all markets in the order in which they were written."""

    def __init__(self) -> None:
        self.left: dict[int, int] = {}
        self._read = 0

    def read(self) -> None:
        """Read the events since the last call; what each decision saw must be what is left here."""
        for event in Event.objects.filter(pk__gt=self._read).select_related("bid").order_by("pk"):
            self._read = event.pk
            self._turn(event)
            if event.bid is None or event.bid.team_id not in self.left:
                continue
            team, bid = event.bid.team_id, event.bid
            match event.kind:
                case EventKind.ADMITTED | EventKind.REJECTED | EventKind.STANDING:
                    if event.kind != EventKind.ADMITTED or bid.stands_until is None:
                        assert event.payload["credits"] == self.left[team]
                    if event.kind == EventKind.ADMITTED:
                        self.left[team] -= round(parse(bid.decision.receipt)["payment"] * 1e6)
                        assert self.left[team] >= 0
                    elif event.kind == EventKind.REJECTED and parse(bid.decision.receipt)["reason"] == "over_budget":
                        assert not bid.credit_transactions.exists()
                case EventKind.FAILED:
                    self.left[team] += round(event.payload["refund"] * 1e6)

    def _turn(self, event: Event) -> None:
        """In a turn, bids that are admitted leave less to those that are tried after them."""
        turn = event.payload.get("standing", {})
        left = dict(self.left)
        admitted = Event.objects.filter(market=event.market_id, version__gt=event.version, kind=EventKind.ADMITTED)
        for number in turn.get("tried", ()) if isinstance(turn, dict) else ():
            bid = Bid.objects.get(market=event.market_id, sequence=number)
            if bid.team_id not in left:
                continue
            assert turn["credits"][str(number)] == left[bid.team_id]
            if admitted.filter(bid=bid, slot=event.payload["now"]).exists():
                left[bid.team_id] -= round(parse(bid.decision.receipt)["payment"] * 1e6)
