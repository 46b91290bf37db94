"""The bids that stand at a point of a replay, and their turns, found by the functions of the live market."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.owners import owner_number
from auctions.domain.policy_errors import PolicyFailed
from auctions.domain.standing_rule import RULE
from auctions.engine import standing
from auctions.engine.competitors import Cores
from auctions.engine.decide import TriedBook
from auctions.engine.standing import Candidate, Try, Turn
from auctions.history.recorded import Source
from auctions.models import Bid
from auctions.state.book import LiveBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, canonical
from scheduling.model.types import Json
from scheduling.policies.standing import StandingBid, StandingRule, competing

Asks = Callable[[TriedBook, Candidate, int | None], Try]
"""Tries one standing bid, as `auctions.engine.standing.try_bid` does."""


@dataclass(frozen=True)
class Standing:
    """A bid that stands."""

    row: Bid
    one: StandingBid
    """The bid in the positions of `snapshot`; of it only the arrival and the utility are used."""
    first: Decision
    snapshot: InventorySnapshot
    """The inventory of the first decision."""

    @property
    def owner(self) -> int:
        """The number of its owner, among competitors."""
        return owner_number(user=self.row.owner_id, team=self.row.team_id)

    def candidate(self, book: LiveBook) -> Candidate:
        """Return the bid as it is tried, in the positions of the book's inventory."""
        now = book.snapshot
        first = standing.first_offer(self.first, old=self.snapshot, new=now)
        return Candidate(replace(self.one, bid=self.core(now)), first, self.row.owner_id)

    def core(self, snapshot: InventorySnapshot) -> CoreBid:
        """Return the bid in the positions of an inventory."""
        name = str(self.row.sequence)
        return core_bid(self.row.resolved_request, snapshot, bid_id=name, arrival=self.row.arrival_slot)


class Snapshots:
    """Inventories of a document, each written once."""

    def __init__(self) -> None:
        self._positions: dict[str, int] = {}
        self.documents: list[Json] = []

    def position(self, snapshot: InventorySnapshot) -> int:
        """Return the position of an inventory among the documents; it is added if it is new."""
        document = snapshot.to_json()
        key = canonical(document)
        if key not in self._positions:
            self._positions[key] = len(self.documents)
            self.documents.append(document)
        return self._positions[key]


class StandingBids:
    """The bids that stand between two events, by sequence number."""

    def __init__(self, rule: StandingRule = RULE) -> None:
        self.rule = rule
        """The rule of the last turn."""
        self._bids: dict[int, Standing] = {}
        self._quarantined: dict[int, Standing] = {}
        self._competitors = Cores()
        """Bids that were compared last."""

    def __contains__(self, number: int) -> bool:
        return number in self._bids

    def to_json(self, known: Snapshots) -> Json:
        """Return a document that `from_json` reads; inventories are added to `known`."""
        groups = {"bids": self._bids, "quarantined": self._quarantined}
        return {
            "rule": asdict(self.rule),
            **{
                name: [
                    {
                        "key": found.row.pk,
                        **{key: getattr(found.one, key) for key in ("number", "tried", "until", "owner")},
                        "bid": found.one.bid.to_json(),
                        "first": found.first.to_json(),
                        "snapshot": known.position(found.snapshot),
                    }
                    for found in group.values()
                ]
                for name, group in groups.items()
            },
        }

    @classmethod
    def from_json(cls, document: Json, snapshots: Sequence[InventorySnapshot], source: Source) -> "StandingBids":
        """Read what `to_json` wrote, with the rows of the bids from a source."""
        found = cls(StandingRule.from_json(document["rule"]))
        for name, group in (("bids", found._bids), ("quarantined", found._quarantined)):
            for row in document[name]:
                one = StandingBid(
                    row["number"], CoreBid.from_json(row["bid"]), row["tried"], row["until"], row["owner"]
                )
                bid = source.bids([row["key"]])[row["key"]]
                first = Decision.from_json(row["first"])
                group[one.number] = Standing(bid, one, first, snapshots[row["snapshot"]])
        return found

    def keys(self) -> dict[int, int]:
        """Return the keys of the bids that stand, or are quarantined and stood, by number."""
        return {number: found.row.pk for number, found in (*self._bids.items(), *self._quarantined.items())}

    def firsts(self) -> dict[int, Decision]:
        """Return the first decisions on the bids that stand, by number."""
        return {number: found.first for number, found in self._bids.items()}

    def copy(self) -> "StandingBids":
        """Return an independent copy."""
        other = StandingBids(self.rule)
        other._bids, other._quarantined = dict(self._bids), dict(self._quarantined)
        other._competitors = self._competitors
        return other

    def add(self, row: Bid, one: StandingBid, first: Decision, snapshot: InventorySnapshot) -> None:
        """Add a bid that was rejected and stands."""
        self._bids[one.number] = Standing(row, one, first, snapshot)

    def remove(self, number: int) -> None:
        """Remove a bid that was withdrawn or admitted; nothing happens if it does not stand."""
        self._bids.pop(number, None)
        self._quarantined.pop(number, None)

    def tried(self, number: int, *, slot: int) -> None:
        """Note that a bid was tried again in this slot; nothing happens if it does not stand."""
        if number in self._bids:
            found = self._bids[number]
            self._bids[number] = replace(found, one=found.one.tried_in(slot))

    def quarantine(self, number: int) -> None:
        """Put a bid aside on which the policy failed; nothing happens if it does not stand."""
        found = self._bids.pop(number, None)
        if found is not None:
            self._quarantined[number] = found

    def retry(self, number: int) -> None:
        """Let a quarantined bid stand again; nothing happens if it did not stand before."""
        found = self._quarantined.pop(number, None)
        if found is not None:
            self._bids[number] = found

    def let_compete(self, book: LiveBook) -> None:
        """Let the policy see the bids that stand now, if it compares them, as `competitors.let_compete` does."""
        book.competitors = ()
        if book.policy.competes:
            now = book.running.now
            owners = {number: found.owner for number, found in self._bids.items() if found.one.until >= now}
            self._competitors = self._competitors.of(
                competing(owners),
                book.snapshot,
                lambda missing: {n: self._bids[n].core(book.snapshot) for n in missing},
            )
            book.competitors = tuple(self._competitors.by_number.values())

    def turn(
        self,
        book: LiveBook,
        *,
        before: int,
        ended: bool,
        failing: Collection[int],
        credits: Mapping[int, int],
        ask: Asks,
    ) -> Turn:
        """Give the bids their turn, when the first slot on sale was `before`; admissions are in the book afterwards.

        `ended` says whether a job ended since. The policy is not asked about bids whose numbers are in `failing`,
        because it failed on them in the record.
        `credits` is what the teams of tried bids had left in the record.
        """
        now, posted = book.running.now, standing.posts_prices(book.policy)
        over = [found for found in self._bids.values() if not posted or found.one.until < now]
        ending = sorted(over, key=attrgetter("one.until", "one.number"))[: standing.ENDED_AT_ONCE]
        trying = []
        if posted and standing.is_due(self.rule, before=before, now=now, ended=ended):
            trying = standing.in_turn((found.one for found in self._bids.values()), now, self.rule)
        over_now = [(found.one.number, standing.final_rejection(found.candidate(book), book)) for found in ending]
        self.let_compete(book)
        tried = TriedBook(book)
        tries = [self._try(tried, self._bids[one.number], failing, credits.get(one.number), ask) for one in trying]
        book.competitors = ()
        for number, _ in over_now:
            self.remove(number)
        seen = {one.number: credits[one.number] for one in trying if one.number in credits}
        return Turn(self.rule, tries, over_now, seen)

    def _try(self, tried: TriedBook, found: Standing, failing: Collection[int], left: int | None, ask: Asks) -> Try:
        candidate = found.candidate(tried.book)
        number = candidate.standing.number
        if number in failing:
            tried.without(candidate.standing.bid)
            done = Try(candidate, None, PolicyFailed("on record"))
        else:
            done = ask(tried, candidate, left)
        self.tried(number, slot=tried.book.running.now)
        if done.failed is not None:
            self.quarantine(number)
        elif done.made is not None:
            self.remove(number)
        return done
