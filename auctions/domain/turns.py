"""The order of decisions: the owners of the bids that wait in a market take turns.

Bids are decided slot by slot: a bid waits for all that arrived in an earlier slot. Among those of one slot the owner
comes next whose last turn was longest ago, with the first of its bids. Owners that had no turn come before, in the
order of their first bids. A decision is a turn of its owner if bids of another owner wait in the same slot; who is
alone uses up no turn. The owner of a bid is its team, or its user if it has none.

So a bid waits for all bids of earlier slots, for its owner's earlier bids of its slot, and then for at most one bid of
each other owner: after that bid, the other one's turn is the later one.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace


@dataclass(frozen=True, slots=True)
class WaitingBid:
    """A bid in a decision queue."""

    number: int
    """Its sequence number."""
    slot: int
    """Slot of its arrival."""
    owner: int
    """The owner, named by `owners.owner_number`."""


@dataclass(slots=True)
class _Slot:
    """The bids of one slot."""

    counts: Counter[int] = field(default_factory=Counter)
    """Number of bids of each owner that wait; no owner has none."""
    numbers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Heap of each owner's numbers, also of bids that wait no longer."""
    order: list[tuple[int, int, int]] = field(default_factory=list)
    """Heap of last turn, first number and owner. What has changed since is found when it comes first."""
    entries: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """The entry of the heap that counts for each owner: it is not greater than the true one."""


class Turns:
    """The bids that wait in one market, and the last turn of each owner.

    Each method takes O(log n) steps, amortised, for n bids.
    """

    def __init__(self, last: Mapping[int, int] | None = None) -> None:
        self.last: dict[int, int] = {**(last or {})}
        """Version of the event that was each owner's last turn."""
        self._waiting: dict[int, WaitingBid] = {}
        self._slots: dict[int, _Slot] = {}
        self._in_order: list[int] = []
        """Heap of the slots in which bids wait, or waited."""

    def add(self, bid: WaitingBid) -> None:
        """Add a bid that waits, perhaps again; raises ValueError if it waits already."""
        if bid.number in self._waiting:
            raise ValueError(f"bid {bid.number} waits already")
        self._waiting[bid.number] = bid
        if bid.slot not in self._slots:
            self._slots[bid.slot] = _Slot()
            heappush(self._in_order, bid.slot)
        found = self._slots[bid.slot]
        found.counts[bid.owner] += 1
        numbers = found.numbers[bid.owner]
        heappush(numbers, bid.number)
        entry, known = self._entry(numbers, bid.owner), found.entries.get(bid.owner)
        if known is None or entry < known:
            found.entries[bid.owner] = entry
            heappush(found.order, entry)

    def remove(self, number: int) -> None:
        """Remove a bid that waits no longer; nothing happens if it does not wait."""
        bid = self._waiting.pop(number, None)
        if bid is None:
            return
        found = self._slots[bid.slot]
        found.counts[bid.owner] -= 1
        if not found.counts[bid.owner]:
            del found.counts[bid.owner], found.numbers[bid.owner]

    def waits(self, number: int) -> bool:
        """Return whether this bid waits."""
        return number in self._waiting

    def first(self) -> WaitingBid | None:
        """Return the bid that is decided next; None if none waits."""
        while self._in_order:
            found = self._slots[self._in_order[0]]
            while found.order:
                entry = found.order[0]
                _, number, owner = entry
                if entry != found.entries.get(owner):
                    heappop(found.order)
                elif owner not in found.counts:
                    heappop(found.order)
                    del found.entries[owner]
                else:
                    numbers = found.numbers[owner]
                    while numbers[0] not in self._waiting:
                        heappop(numbers)
                    true = self._entry(numbers, owner)
                    if true == entry:
                        return self._waiting[number]
                    found.entries[owner] = true
                    heapreplace(found.order, true)
            del self._slots[heappop(self._in_order)]
        return None

    def take(self, number: int, *, version: int) -> bool:
        """Remove a bid that an event of this version decides or quarantines; return whether it is its owner's turn.

        Raises
        ------
        KeyError
            If the bid does not wait.
        """
        bid = self._waiting[number]
        is_turn = len(self._slots[bid.slot].counts) > 1
        self.remove(number)
        if is_turn:
            self.last[bid.owner] = version
        return is_turn

    def next(self, at_most: int, *, version: int) -> list[WaitingBid]:
        """Return the first bids of one slot in the order in which they are taken if no other comes; nothing changes.

        `version` is not below that of any turn.
        """
        found: list[WaitingBid] = []
        before: dict[int, int | None] = {}
        while len(found) < at_most and (first := self.first()) is not None:
            found.append(first)
            before.setdefault(first.owner, self.last.get(first.owner))
            self.take(first.number, version=version + len(found))
            if not self._slots[first.slot].counts:
                break  # entries of the next slot would hold turns that are not taken
        for owner, last in before.items():
            if last is None:
                self.last.pop(owner, None)
            else:
                self.last[owner] = last
        for bid in found:
            self.add(bid)
        return found

    def waiting(self) -> list[WaitingBid]:
        """Return the bids that wait, by number."""
        return sorted(self._waiting.values(), key=lambda bid: bid.number)

    def _entry(self, numbers: list[int], owner: int) -> tuple[int, int, int]:
        return self.last.get(owner, 0), numbers[0], owner
