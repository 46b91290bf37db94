"""The common part of policies that promise slots of completion: until then the machines of a job may change."""

from scheduling.batch.consumption import consumption_of, offers_for_each_kind
from scheduling.best_response.divided.terms import DividedTerms
from scheduling.book.state import Book, Cause
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, Reason
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats, Json
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.policies.promises import Promises, breaks


def restart_slots() -> int:
    """Return the parameter `restart` of a policy."""
    text = "Slots in which a job that was stopped holds nothing and does no work."
    found: int = parameter(0, text, low=0, high=1000)
    return found


def still_held_parameter() -> bool:
    """Return the parameter `still_held` of a policy."""
    found: bool = parameter(
        True,
        "A job is not stopped while it holds a server that takes no new work. Without this it is not stopped, either, "
        "if it held one at any time before.",
        absent=False,
    )
    return found


class PromisedSlots(PostedPricePolicy):
    """Jobs run in order of their promised slots, and later ones are stopped for them."""

    restart: int
    """Slots in which a job that was stopped holds nothing and does no work."""
    beside: bool = False
    """Whether a new job may be placed beside all others, as planned, where to place them again breaks promises."""
    still_held: bool = False
    """Whether servers that take no new work keep a job from being stopped only while it holds them."""
    each_kind: bool = False
    """Whether a bid counts as an offer for each kind of machine that it could use."""
    architectures = frozenset(Architecture)
    binding = False
    keeps_slots = True

    @property
    def exact(self) -> bool:
        """Whether the granted schedule is optimal for the bid: its promise is, up to `later`, and its machines move."""
        return False

    def impossible(self, bid: Bid, book: Book, prices: Json) -> Decision:
        """Return the rejection of a bid that even the empty cluster cannot complete; `prices` are those in force."""
        text = f"Even the empty cluster could not complete it before slot {book.ledger.end}."
        offered = self.offers(bid, book, bid.utility.value)
        return Decision.reject(bid.id, Reason.IMPOSSIBLE, text, slot=book.now, density=offered, prices=prices)

    def offers(self, bid: Bid, book: Book, value: float) -> tuple[float, ...]:
        """Return what a bid offers for a unit-slot of each resource with this value, R numbers, money."""
        if self.each_kind:
            return offers_for_each_kind(bid, book.inventory, value)
        return consumption_of(bid, book.ledger).densities(value)

    def promises(self, book: Book) -> Promises:
        """Return the jobs of a book that may be moved, with the posted prices."""
        return Promises(book, self, self.restart, self.beside, self.still_held)

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Plan jobs that do not run again, in order of their promises, when something ended or changed.

        A plan that would break a promise that is kept now is not made. If servers or the policy changed, jobs that run
        may be stopped for those without machines, and jobs whose promises cannot be kept get no plan. At other times
        jobs without machines are planned as early as possible, even if that is too late.
        """
        if cause is Cause.SLOT and all(job.completion is not None for job in book.jobs):
            return ()
        promises = self.promises(book)
        without = any(job.completion is None for job in promises.waiting)
        if not promises.waiting or (cause is Cause.SLOT and not without):
            return ()
        if cause is Cause.CHANGED:
            return promises.moves(promises.saved())
        placed = promises.place(promises.waiting)
        broken = any(job.completion is not None and breaks(job, placed) for job in promises.waiting)
        if broken and without:
            placed = promises.place([job for job in promises.waiting if job.completion is None])
        elif broken:
            return ()
        return promises.moves(placed)

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> DividedTerms:
        """Return the terms of the dual bound at these prices: jobs may be stopped and moved in any slot."""
        return DividedTerms(inventory, prices, start=start)
