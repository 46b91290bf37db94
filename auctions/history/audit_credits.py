"""Checks of credits: transactions of bids against decisions and ends, and the sums of each team."""

from collections.abc import Iterator
from typing import Final

from django.db.models import Count, Q, Sum

from auctions.domain.credits import in_words, millionths
from auctions.models import (
    MOVES,
    TERMINAL,
    Bid,
    BudgetPeriod,
    CreditAccount,
    CreditEntry,
    CreditKind,
    CreditTransaction,
    Event,
    EventKind,
    Market,
)
from cluster.database.paging import in_pages

Amounts = dict[CreditKind, int]
SIZE: Final = 500
"""Bids whose transactions are read at a time."""


def credits_match(market: Market) -> Iterator[str]:
    """Check that bids of teams with a budget hold, pay and get back what their decisions and ends say, and no others.

    The event of an admission says what the team had left, so it says that there was a limit.
    """
    admitted = Event.objects.filter(market=market, kind=EventKind.ADMITTED, payload__has_key="credits", bid__seal=None)
    known = dict(admitted.values_list("bid_id", "payload__credits"))
    bids = (
        Bid.objects.filter(market=market, seal=None)
        .filter(Q(pk__in=known) | Q(credit_transactions__isnull=False))
        .distinct()
    )
    columns = ("pk", "sequence", "state", "team_id", "payment", "refund")
    page: list[Bid] = []
    for bid in in_pages(bids.only(*columns), by="sequence"):
        page.append(bid)
        if len(page) == SIZE:
            yield from _page(page, known)
            page = []
    yield from _page(page, known)


def transactions_add_up() -> Iterator[str]:
    """Check that the entries of each transaction sum to 0, and are those of its kind."""
    rows = CreditTransaction.objects.annotate(sum=Sum("entries__amount"), entries_in_all=Count("entries"))
    wrong = rows.filter(~Q(sum=0) | Q(sum=None) | ~Q(entries_in_all=2)).order_by("pk")
    for row in wrong:
        yield f"transaction {row.pk} ({row.kind}) has {row.entries_in_all} entries, which sum to {row.sum}"
    for kind, accounts in MOVES.items():
        others = CreditEntry.objects.filter(transaction__kind=kind).exclude(account__in=accounts)
        for pk, account in others.order_by("pk").values_list("transaction_id", "account"):
            yield f"transaction {pk} ({kind}) has an entry of the account {account}"


def balances_add_up() -> Iterator[str]:
    """Check that the sums of each period are those of its entries, and that no team ever had less than nothing left."""
    for period in BudgetPeriod.objects.select_related("team").order_by("pk"):
        sums: dict[tuple[str, str], int] = {}
        left = least = 0
        entries = CreditEntry.objects.filter(transaction__period=period)
        columns = ("pk", "transaction__kind", "account", "amount")
        for entry in in_pages(entries.values_list(*columns, named=True), by="pk"):
            key = entry.transaction__kind, entry.account
            sums[key] = sums.get(key, 0) + entry.amount
            left += entry.amount if entry.account == CreditAccount.AVAILABLE else 0
            least = min(least, left)
        granted = sums.get((CreditKind.GRANTED, CreditAccount.AVAILABLE), 0)
        taken = -sums.get((CreditKind.HELD, CreditAccount.AVAILABLE), 0)
        if (period.granted, period.taken) != (granted, taken):
            yield (
                f"{period}: granted {in_words(period.granted)} and held {in_words(period.taken)} by its row,"
                f" {in_words(granted)} and {in_words(taken)} by its transactions"
            )
        if least < 0:
            yield f"{period}: {in_words(-least)} credits more were held than there were"
        held = sum(amount for (_, account), amount in sums.items() if account == CreditAccount.HELD)
        if held < 0:
            yield f"{period}: {in_words(-held)} credits more were charged than were held"


def _page(bids: list[Bid], known: dict[int, int]) -> Iterator[str]:
    found: dict[int, Amounts] = {bid.pk: {} for bid in bids}
    teams: dict[int, set[int]] = {bid.pk: set() for bid in bids}
    rows = CreditTransaction.objects.filter(bid__in=found).select_related("period").prefetch_related("entries")
    for row in rows:
        if row.bid_id is not None:
            found[row.bid_id][CreditKind(row.kind)] = row.amount
            teams[row.bid_id].add(row.period.team_id)
    for bid in bids:
        expected = _expected(bid) if bid.pk in known else {}
        if found[bid.pk] != expected:
            yield f"bid {bid.sequence} ({bid.state}): {_words(found[bid.pk])}; it should be {_words(expected)}"
        if found[bid.pk] and teams[bid.pk] != {bid.team_id}:
            yield f"bid {bid.sequence} is paid by another team than its own"
        if bid.pk in known and millionths(bid.payment or 0.0) > known[bid.pk]:
            yield f"bid {bid.sequence} was admitted for {bid.payment}, with {in_words(known[bid.pk])} left"


def _expected(bid: Bid) -> Amounts:
    """Return the transactions of a bid that was admitted within a limit."""
    paid, back = millionths(bid.payment or 0.0), millionths(bid.refund)
    if not paid:
        return {}
    ended = bid.state in TERMINAL
    amounts = {
        CreditKind.HELD: paid,
        CreditKind.CHARGED: paid if ended else 0,
        CreditKind.REFUNDED: back if ended else 0,
    }
    return {kind: amount for kind, amount in amounts.items() if amount}


def _words(amounts: Amounts) -> str:
    return ", ".join(f"{kind} {in_words(amounts[kind])}" for kind in CreditKind if kind in amounts) or "nothing"
