"""Sums over all bids of a market, and its decisions and completions in order, at one version.

Each process reads them in full once and then follows the events (`auctions/state/followed.py`), so that they take no
longer in a large market. A market's first reading in a process takes as long as there are bids.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

import numpy as np
from django.db.models import Q, QuerySet
from numpy.typing import NDArray

from auctions.domain.totals import COMPLETED_SLOT, VALUE_KEPT, Sums, added, figures_of, sums_by_state
from auctions.models import TERMINAL, Bid, BidState, DecisionRecord, Market
from auctions.state.followed import Followed

Rows = NDArray[np.void]

MOST_MARKETS: Final = 1_000
"""Largest number of markets whose sums a process remembers."""
MOST_SERIES: Final = 4
"""Largest number of markets whose decisions and completions a process remembers: 64 and 40 bytes of each bid."""
MOST_AT_ONCE: Final = 900
"""Largest number of bids that one query names."""

_LEFT: Final = Q(state__in=sorted(TERMINAL), unrecorded_withdrawal=False)
"""Bids that have ended, and whose ends are in events."""
_HERE: Final = Q(state__in=sorted(set(BidState) - TERMINAL)) | Q(unrecorded_withdrawal=True)
"""All other bids. Their number does not grow with the market."""

DECISIONS: Final = np.dtype(
    [
        ("version", np.int64),
        ("key", np.int64),
        ("sequence", np.int64),
        ("slot", np.int64),
        ("seconds", np.float64),
        ("value", np.float64),
        ("revenue", np.float64),
        ("standalone_value", np.float64),
    ]
)
ADMISSIONS_KEPT: Final = 32
"""Number of the last admissions of standing bids that are remembered."""


class Admission(NamedTuple):
    """The admission of a bid that stood."""

    version: int
    slot: int
    arrival: int
    owner: int
    team: int | None


COMPLETIONS: Final = np.dtype(
    [
        ("over", np.int64),
        ("sequence", np.int64),
        ("arrival", np.int64),
        ("owner", np.int64),
        ("value", np.float64),
    ]
)


def present_figures(market: Market) -> dict[str, Any]:
    """Return the present counts, sums and means of a market by their names in a summary."""
    here = sums_by_state(Bid.objects.filter(_HERE, market=market))
    return figures_of(added(_ended.at(market), here))


def decisions(market: Market) -> Rows:
    """Return the final decisions of a market in order, with the value that counts now and the payment less refund."""
    return _decisions.at(market)


def completions(market: Market) -> Rows:
    """Return the completed jobs of a market, in order of completion."""
    return _completions.at(market)


def last_admissions_of_standing(market: Market) -> tuple[Admission, ...]:
    """Return the last admissions of bids that stood, at most ADMISSIONS_KEPT, in order."""
    return _admissions.at(market)


def forget() -> None:
    """Forget what this process has read."""
    for one in (_ended, _decisions, _completions, _admissions):
        one.forget()


def _bids(market: Market, numbers: frozenset[int]) -> list[QuerySet[Bid]]:
    ordered = sorted(numbers)
    parts = (ordered[i : i + MOST_AT_ONCE] for i in range(0, len(ordered), MOST_AT_ONCE))
    return [Bid.objects.filter(market=market, sequence__in=part) for part in parts]


def _read_ended(market: Market) -> dict[str, Sums]:
    return sums_by_state(Bid.objects.filter(_LEFT, market=market))


def _follow_ended(market: Market, before: dict[str, Sums], changed: frozenset[int]) -> dict[str, Sums]:
    for bids in _bids(market, changed):
        before = added(before, sums_by_state(bids.filter(_LEFT)))
    return before


def _read_decisions(market: Market) -> Rows:
    return _decisions_of(DecisionRecord.objects.filter(bid__market=market))


def _decisions_of(records: QuerySet[DecisionRecord]) -> Rows:
    columns = ("version", "pk", "bid__sequence", "slot", "decided_s", "bid__state", "bid__value", "bid__payment")
    rows = records.order_by("version", "pk").values_list(*columns, "bid__refund", "standalone_value")
    return _array(
        [
            (version, pk, number, slot, at, value if state in VALUE_KEPT else 0.0, (paid or 0.0) - refund, alone)
            for version, pk, number, slot, at, state, value, paid, refund, alone in rows
        ],
        DECISIONS,
    )


def _follow_decisions(market: Market, before: Rows, changed: frozenset[int]) -> Rows:
    """Add new decisions, and put the present values of earlier ones in their places."""
    parts = [_decisions_of(DecisionRecord.objects.filter(bid__in=bids)) for bids in _bids(market, changed)]
    found = np.concatenate([before[:0], *parts])
    is_new = found["version"] > (before["version"][-1] if len(before) else 0)
    everything: Rows = np.concatenate([before, np.sort(found[is_new], order=["version", "key"])])
    if not is_new.all():
        by_key = np.argsort(before["key"], kind="stable")
        old = found[~is_new]
        everything[by_key[np.searchsorted(before["key"], old["key"], sorter=by_key)]] = old
    return everything


def _read_completions(market: Market) -> Rows:
    return _in_order(_completions_of(Bid.objects.filter(market=market)))


def _completions_of(bids: QuerySet[Bid]) -> Rows:
    rows = bids.filter(state=BidState.COMPLETED).annotate(over=COMPLETED_SLOT).order_by()
    return _array(list(rows.values_list("over", "sequence", "arrival_slot", "owner_id", "value")), COMPLETIONS)


def _follow_completions(market: Market, before: Rows, changed: frozenset[int]) -> Rows:
    return _in_order(np.concatenate([before, *(_completions_of(bids) for bids in _bids(market, changed))]))


def _read_admissions(market: Market) -> tuple[Admission, ...]:
    return _admissions_of(DecisionRecord.objects.filter(bid__market=market))


def _admissions_of(records: QuerySet[DecisionRecord]) -> tuple[Admission, ...]:
    stood = records.filter(stood_from__isnull=False, bid__payment__isnull=False).order_by("-version")
    columns = ("version", "slot", "bid__arrival_slot", "bid__owner_id", "bid__team_id")
    return tuple(sorted(Admission(*row) for row in stood.values_list(*columns)[:ADMISSIONS_KEPT]))


def _follow_admissions(market: Market, before: tuple[Admission, ...], changed: frozenset[int]) -> tuple[Admission, ...]:
    parts = [_admissions_of(DecisionRecord.objects.filter(bid__in=bids)) for bids in _bids(market, changed)]
    return tuple(sorted({*before, *chain.from_iterable(parts)})[-ADMISSIONS_KEPT:])


def _in_order(rows: Rows) -> Rows:
    in_order: Rows = rows[np.lexsort((rows["sequence"], rows["over"]))]
    return in_order


def _array(rows: Sequence[tuple[Any, ...]], kinds: np.dtype[np.void]) -> Rows:
    return np.array(list(rows), dtype=kinds)


_ended: Final = Followed(_read_ended, _follow_ended, most=MOST_MARKETS)
_decisions: Final = Followed(_read_decisions, _follow_decisions, most=MOST_SERIES)
_completions: Final = Followed(_read_completions, _follow_completions, most=MOST_SERIES)
_admissions: Final = Followed(_read_admissions, _follow_admissions, most=MOST_MARKETS)
