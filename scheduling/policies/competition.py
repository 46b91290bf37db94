"""Competition: bids wait and compete for the machines of now; a completion is promised when a job starts.

A promise that is made at once is in the way of better jobs that come later. Here a bid that stands has no promise until
its job starts, and until then all of them compete. docs/algorithms/competition.md explains who starts and what is paid.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from scheduling.batch.consumption import consumption_of
from scheduling.batch.planner import Placed, place_batch, plan_alone
from scheduling.best_response.price_floor import ROUNDING
from scheduling.book.state import Book
from scheduling.competition.contest import Contest, Rule, Start, competing
from scheduling.competition.ground import Ground, ground_of
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Reason
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats
from scheduling.policies.base import Grant
from scheduling.policies.promised_slots import PromisedSlots, restart_slots, still_held_parameter
from scheduling.policies.promises import Promises
from scheduling.policies.promises import due as due_of

FAR: Final = 2.0
"""A bid that is no start of the rough plan does not start if others lose this many times its value."""
PRICED: Final = 16
"""Largest number of bids in a round that are no starts of the rough plan and whose payments are looked for."""
AGAIN = 64
"""Largest number of times that bids compete, each time without those that could not be promised a slot."""


@dataclass(frozen=True)
class Able:
    """A slot that can be promised to a bid that starts."""

    due: int
    plan: Placed
    """Keeps this promise and all others."""


@dataclass(frozen=True)
class Bought:
    """A promise to a bid, with its payment."""

    able: Able
    payment: float


@dataclass(frozen=True)
class Round:
    """The contest of all bids that stand on one book."""

    policy: "Competition"
    promises: Promises
    bids: tuple[Bid, ...]
    known: dict[tuple[str, int], Able | None] = field(default_factory=dict)
    """The promises that were looked for so far, by bid and planned completion."""
    prices: dict[str, float] = field(default_factory=dict)
    """The payments that were computed so far, by bid."""
    looked_at: set[str] = field(default_factory=set)
    """Bids that are no starts of the rough plan and have free machines, so that what they would pay was looked for."""

    @cached_property
    def names(self) -> frozenset[str]:
        """The ids of the bids that compete."""
        return frozenset(bid.id for bid in self.bids)

    @cached_property
    def full(self) -> Contest:
        """The contest of all bids."""
        return self._contest(self.bids)

    @cached_property
    def all_fit(self) -> bool:
        """Whether all jobs and bids can run at once; no value that a bid states counts."""
        full = self.full
        return (full if full.ground is self._ground else replace(full, ground=self._ground)).all_fit

    @cached_property
    def starts(self) -> dict[str, Start]:
        """The bids that start, by id."""
        return self.settled(self.bids)[1]

    def bought(self, bid: Bid, now: Promises | None = None) -> Bought | Reason:
        """Return what a bid is promised if it starts, or why it is not.

        `now` are the promises after bids were admitted in this round: the machines may be gone.
        """
        if bid.id not in self.names:
            return Reason.NO_ROOM
        able = self._started(bid, now) or self._spare(bid, now or self.promises)
        if able is None:
            return Reason.NO_ROOM
        payment = self._price(bid)
        return Bought(able, payment) if payment < bid.utility.at(able.due - bid.arrival) else Reason.PRICE

    def _price(self, bid: Bid) -> float:
        """Return what the bid pays if it starts, computed once."""
        if bid.id not in self.prices:
            self.prices[bid.id] = 0.0 if self.all_fit else self._payment(bid)
        return self.prices[bid.id]

    def _payment(self, bid: Bid) -> float:
        """Return what a start costs. Which of the others count is found without the bid, so no value that it states
        moves what it pays.

        That is the cost of a run without a pause, though the promised slot may be later: how much room is left between
        promises that are far off a rough plan does not know.
        """
        others, _ = self.settled([one for one in self.bids if one.id != bid.id])
        return rounded_up(others.cost(bid))

    def settled(self, bids: Sequence[Bid]) -> tuple[Contest, dict[str, Start]]:
        """Return the contest of these bids, and those that start in it.

        Bids that would start and cannot be promised a slot are left out, so that they hold no others back. Where all
        fit, nobody does.
        """
        for _ in range(AGAIN):
            contest = self.full if bids is self.bids else self._contest(bids)
            starts = {start.bid.id: start for start in contest.starts()}
            unable = () if contest.all_fit else [name for name, start in starts.items() if self._able(start) is None]
            if not unable:
                break
            bids = [bid for bid in bids if bid.id not in unable]
        return contest, starts

    @cached_property
    def _ground(self) -> Ground:
        return ground_of(self.promises.book, self.promises.jobs, until_closed=self.policy.until_closed)

    @cached_property
    def _all(self) -> Contest:
        return Contest(self._ground, self.bids, self.policy.rule)

    def _contest(self, bids: Sequence[Bid]) -> Contest:
        contest = self._all if bids is self.bids else self._all.only(bids)
        # The present plan keeps all promises. Where no rough plan does, the jobs are left as they are planned.
        return Contest(self._ground.fixed, tuple(bids), self.policy.rule) if contest.is_broken else contest

    def _started(self, bid: Bid, now: Promises | None) -> Able | None:
        """Return a promise to a bid that starts in the rough plan; None if it does not, or if there is none."""
        start = self.starts.get(bid.id)
        able = None if start is None else self._able(start)
        if able is None or now is None:
            return able
        plan = self._plan(bid, able.due, now)
        return None if plan is None else Able(able.due, plan)

    def _able(self, start: Start) -> Able | None:
        key = start.bid.id, start.completion
        if key not in self.known:
            due = self._latest(start)
            plan = self._plan(start.bid, due, self.promises)
            self.known[key] = None if plan is None else Able(due, plan)
        return self.known[key]

    def _latest(self, start: Start) -> int:
        """Return the latest slot that is worth nearly as much as the planned completion."""
        value, now = self._ground.values(start.bid), self.promises.book.now
        enough = (value > 0.0) & (value >= (1.0 - self.policy.later) * value[start.completion - now])
        return now + int(np.flatnonzero(enough)[-1])

    def _spare(self, bid: Bid, promises: Promises) -> Able | None:
        """Return a promise to a bid that does not start in the rough plan, if there are machines for it all the same.

        They are free at the first slot that it could use, beside the jobs as they are planned and the bids that start:
        a rough plan knows no servers, and gives each bid the machines of its shortest run.
        """
        first = promises.book.now + self._ground.first(bid)
        if first >= promises.book.ledger.end or not promises.has_room(first) or self._takes_far_more(bid):
            return None
        placed = self._placed(bid, promises, ())
        if placed is None:
            return None
        if bid.id not in self.prices and len(self.looked_at) >= PRICED:
            return None
        self.looked_at.add(bid.id)
        admitted = {bid.id, *(job.bid.id for job in promises.book.jobs)}
        before = [start for name, start in self.starts.items() if name not in admitted and self._able(start)]
        if before:
            # What others pay takes longest to find, so it is looked at only if their machines are not left.
            placed = self._placed(bid, promises, before) or self._placed(
                bid, promises, [start for start in before if self._is_bought(start)]
            )
        if placed is None:
            return None
        start = Start(bid, placed.completions[bid.id])
        return Able(self._latest(start), placed.only(bid.id)) if self._ground.is_enough(bid, start.completion) else None

    def _placed(self, bid: Bid, promises: Promises, before: Sequence[Start]) -> Placed | None:
        """Return a plan with the bid in its first slot, after these starts, on machines that no job holds."""
        book, ledger = promises.book, promises.book.ledger
        first, bids = book.now + self._ground.first(bid), [*(start.bid for start in before), bid]
        placed = place_batch(bids, ledger, (book.now, ledger.end))
        return placed if bid.id in placed.rows and placed.schedule(bid.id).start == first else None

    def _takes_far_more(self, bid: Bid) -> bool:
        """Return whether others lose far more than the bid can be worth, in the order that was found for all: then what
        it would pay, which takes much longer to find, is not looked at."""
        full = self.full
        if full.ground is not self._ground or len(full.bids) == 1:
            return False
        soonest = self.promises.book.now + self._ground.soonest(bid)
        return full.loss(bid) > FAR * bid.utility.at(soonest - bid.arrival)

    def _is_bought(self, start: Start) -> bool:
        """Return whether a bid that starts in the rough plan is promised a slot that is worth its payment."""
        able = self._able(start)
        return able is not None and self._price(start.bid) < start.bid.utility.at(able.due - start.bid.arrival)

    @staticmethod
    def _plan(bid: Bid, due: int, promises: Promises) -> Placed | None:
        """Return a plan that keeps a promise to the bid and all others: as under completions, or with the bid before
        all jobs."""
        plan = promises.kept(bid, due)
        if plan is None:
            jobs = sorted((*promises.waiting, *promises.running), key=due_of)
            plan = promises.in_order(bid, due, [bid.id, *(job.bid.id for job in jobs)])
        return plan


@dataclass(frozen=True)
class Tries:
    """Tries of bids that stand, in one round: it goes on after each admission, as others start in the same plan."""

    round_: Round
    promises: Promises
    """Those of the present book."""
    changed: bool = False
    """Whether a bid was admitted since the round began."""

    def __call__(self, bid: Bid) -> Decision | None:
        """Return the admission of a bid that competes; None if it does not start."""
        bought = self.round_.bought(bid, self.promises if self.changed else None)
        if isinstance(bought, Reason):
            return None
        alone = plan_alone(bid, self.promises.book.ledger)
        worth = 0.0 if alone is None else bid.utility.at(alone.completion - bid.arrival)
        return admitted(bid, bought, self.promises, worth) if worth > 0.0 else None

    def after(self, book: Book) -> "Tries":
        """Return the tries that follow on this book, after an admission."""
        return Tries(self.round_, self.round_.policy.promises(book), changed=True)


@dataclass(frozen=True)
class Competition(PromisedSlots):
    """Bids compete until their jobs start; then each is promised a slot of completion and pays what it takes from the
    others."""

    later: float = parameter(
        0.1,
        "Share of its value that a bid may lose at most by a promised slot that is later than planned, which leaves "
        "the market more freedom. Its job is complete as soon as there is room all the same.",
        low=0.0,
        high=1.0,
    )
    steps: int = parameter(
        300,
        "Largest number of moves that are tried to improve an order of all jobs and bids.",
        low=0,
        high=10_000,
    )
    sooner: float = parameter(
        0.2,
        "Share of its value by which a completion counts less, in the comparison of bids, that is a whole horizon "
        "away: of plans that are nearly as good the sooner one is made.",
        low=0.0,
        high=1.0,
    )
    restart: int = restart_slots()
    until_closed: bool = parameter(
        True,
        "A server that takes no new work from a later slot on counts until then. Without this it does not count as "
        "soon as that slot is stated, and bids may wait beside its free machines.",
        absent=False,
    )
    still_held: bool = still_held_parameter()

    name = "competition"
    title = "Competition: bids compete until their jobs start, then a promised slot of completion"
    competes = True

    @property
    def rule(self) -> Rule:
        """The parameters of contests."""
        return Rule(self.steps, self.sooner)

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Promise the bid a slot if its job starts now, or reject it; whether it stands is up to the market."""
        alone = plan_alone(bid, book.ledger)
        if alone is None:
            return self.impossible(bid, book, {})
        worth, reason = bid.utility.at(alone.completion - bid.arrival), Reason.WORTHLESS
        if worth > 0.0:
            round_ = Round(self, self.promises(book), competing(book, bid))
            bought = round_.bought(bid)
            if isinstance(bought, Bought):
                return admitted(bid, bought, round_.promises, worth)
            reason = bought
        return Decision.reject(
            bid.id,
            reason,
            REJECTED[reason],
            slot=book.now,
            density=consumption_of(bid, book.ledger).densities(worth),
            standalone_value=worth,
        )

    def admissions(self, book: Book) -> Tries:
        """Return the tries of the bids that compete on this book: each gives an admission as `decide` does, or None.

        A bid that is not among those that compete has None.
        """
        ledger = book.ledger.copy()  # admissions change the ledger, and the round looks at it as it was
        ledger.derived = book.ledger.derived
        round_ = Round(self, self.promises(replace(book, ledger=ledger)), book.competitors)
        return Tries(round_, self.promises(book))

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""

        def granted(bid: Bid) -> Grant | None:
            decision = self.decide(bid, book)
            return Grant(decision.schedule, decision.payment, decision.due) if decision.admitted else None

        return granted

    def prices(self, book: Book) -> Floats:
        """Return zeros, T x S x R: nothing has a posted price, as a bid pays what its start takes from the others."""
        return np.zeros(book.ledger.used.shape)


def admitted(bid: Bid, bought: Bought, promises: Promises, worth: float) -> Decision:
    """Return the admission of a bid; `worth` is its value on the empty cluster."""
    able, book = bought.able, promises.book
    new, value = able.plan.schedule(bid.id), bid.utility.at(able.due - bid.arrival)
    text = (
        f"Admitted: it is complete by slot {able.due}, which is worth {value:.2f}. It pays {bought.payment:.2f}, "
        f"what this takes from other bids that stand. It is planned to start in slot {new.start} and to be "
        f"complete at slot {new.completion}; its machines may change as long as the promised slot is kept."
    )
    return Decision.admit(
        bid.id,
        new,
        text,
        slot=book.now,
        value=value,
        payment=bought.payment,
        standalone_value=worth,
        density=consumption_of(bid, book.ledger).densities(worth),
        moves=promises.moves(able.plan),
        due=able.due,
    )


def rounded_up(money: float) -> float:
    """Return the amount rounded up to two digits, so that a payment says little of what others stated.

    Examples
    --------
    >>> from scheduling.policies.competition import rounded_up
    >>> [rounded_up(money) for money in (0.0, 0.1234, 9.99, 1204.0, float("inf"))]
    [0.0, 0.13, 10.0, 1300.0, inf]
    """
    if not 0.0 < money < math.inf:
        return money
    unit = 10.0 ** (math.floor(math.log10(money)) - 1)
    if unit == 0.0:  # below the least normal numbers there are no two digits
        return money
    return float(f"{math.ceil(money / unit * (1.0 - ROUNDING)) * unit:.9g}")


REJECTED = {
    Reason.WORTHLESS: "It could run, but even at its earliest possible completion it is worth nothing.",
    Reason.NO_ROOM: (
        "The empty cluster could run it, but it does not start now: jobs with a promise need the machines, or bids "
        "that stand and are worth more come first. If it stands, it competes again when machines are freed."
    ),
    Reason.PRICE: (
        "It could start now, but this would take more from other bids that stand than it is worth, or nearly as much. "
        "If it stands, it competes again when machines are freed."
    ),
}
"""Explanations of rejections."""
