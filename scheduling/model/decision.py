"""Decisions on bids: the receipt, with the reason and the explanation."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

from scheduling.model.schedule import Schedule
from scheduling.model.types import Json


class Reason(StrEnum):
    """The reason of a rejection."""

    PRICE = "price"
    """Every schedule that fits costs at least its value."""
    NO_ROOM = "no_room"
    """The job could run on the empty cluster, but no schedule fits the free capacity."""
    IMPOSSIBLE = "impossible"
    """No schedule fits even the empty cluster within the horizon."""
    WORTHLESS = "worthless"
    """The job can run, but its value is 0 at the earliest possible completion."""
    EXPIRED = "expired"
    """The bid stood as long as it was to be tried, and was not admitted."""
    REFUSED = "refused"
    """The policy does not accept such bids; the bid was submitted under another policy."""
    OVER_BUDGET = "over_budget"
    """The policy admits it, but its payment is more than its team has left."""


@dataclass(frozen=True)
class CounterOffer:
    """The least value at which a rejected bid would have been admitted, for the same ledger and prices.

    With an amplitude of `least_value` plus one cent the bid is admitted. At that value the last start that is still
    admitted is slot `latest_start` (complete at `completion`); no later start is admitted.
    """

    least_value: float
    latest_start: int
    completion: int


@dataclass(frozen=True)
class Move:
    """A change of plan: what a job holds from now on, instead of its earlier plan."""

    job: str
    """The id of its bid."""
    schedule: Schedule | None
    """All placements from now on; None if the job holds nothing: it waits in line again or is paused.

    For a queued job: its forecast and the chunks that join queues now; chunks already in queues stay there.
    """

    def to_json(self) -> Json:
        """Return a document of plain integers and strings; `from_json` reads it back."""
        return {"job": self.job, "schedule": None if self.schedule is None else self.schedule.to_json()}

    @classmethod
    def from_json(cls, document: Json) -> "Move":
        """Read what `to_json` wrote."""
        schedule = document["schedule"]
        return cls(job=document["job"], schedule=None if schedule is None else Schedule.from_json(schedule))


@dataclass(frozen=True)
class Decision:
    """The receipt of one bid. Money is in the unit of the bid; slots are numbers."""

    bid_id: str
    slot: int
    """Slot in which it was decided; nothing starts before it."""
    admitted: bool
    value: float
    """Value at the granted completion, or the full value for a job that waits in line; 0 when rejected."""
    payment: float
    """Sum of posted price x allocation over the schedule; 0 when rejected."""
    payoff: float
    """value - payment."""
    schedule: Schedule | None
    """None when rejected, or when admitted without a start: the job waits in line."""
    reason: Reason | None
    explanation: str
    """One or two sentences in plain words, for the bid's owner."""
    counter: CounterOffer | None
    standalone_value: float
    """Standalone value: the most this bid could be worth on an empty cluster at price 0; its term in the zero-price
    bound."""
    density: tuple[float, ...]
    """Value per unit-slot of each resource that this bid offered, R numbers; 0 if not used. Prices learn from it."""
    prices: Json = field(default_factory=dict)
    """The price function in force: its name and parameters."""
    moves: tuple[Move, ...] = ()
    """Changes of other jobs' plans that this decision causes. They are not part of the receipt."""
    due: int | None = None
    """Promised completion slot, if the machines may change until then; None if the schedule is what is promised, or
    nothing is."""
    costs: tuple[float, ...] = field(default=(), compare=False)
    """Posted cost of each slot from the schedule's start, money; the sum is the payment. Not part of the receipt."""
    offer_factors: tuple[float, ...] = ()
    """Factors by which prices count the density, R numbers; empty, that is 1, if the offer is near recent ones."""

    @classmethod
    def admit(
        cls,
        bid_id: str,
        schedule: Schedule | None,
        explanation: str,
        *,
        slot: int,
        value: float,
        standalone_value: float,
        density: Iterable[float],
        payment: float = 0.0,
        prices: Json | None = None,
        moves: Iterable[Move] = (),
        costs: Iterable[float] = (),
        due: int | None = None,
    ) -> "Decision":
        """Create an admission with this schedule; with None the job waits in line without a start.

        Examples
        --------
        >>> from scheduling.model.decision import Decision
        >>> decision = Decision.admit(
        ...     "job", None, "It is in line.", slot=3, value=5.0, payment=2.0, standalone_value=8.0, density=()
        ... )
        >>> decision.admitted, decision.payoff
        (True, 3.0)
        """
        return cls(
            bid_id=bid_id,
            slot=slot,
            admitted=True,
            value=value,
            payment=payment,
            payoff=value - payment,
            schedule=schedule,
            reason=None,
            explanation=explanation,
            counter=None,
            standalone_value=standalone_value,
            density=tuple(density),
            prices={} if prices is None else prices,
            moves=tuple(moves),
            costs=tuple(costs),
            due=due,
        )

    @classmethod
    def reject(
        cls,
        bid_id: str,
        reason: Reason,
        explanation: str,
        *,
        slot: int,
        density: Iterable[float],
        standalone_value: float = 0.0,
        counter: CounterOffer | None = None,
        prices: Json | None = None,
    ) -> "Decision":
        """Create a rejection: nothing is granted and nothing is paid.

        Examples
        --------
        >>> from scheduling.model.decision import Decision, Reason
        >>> Decision.reject("job", Reason.PRICE, "It costs too much.", slot=3, density=()).payment
        0.0
        """
        return cls(
            bid_id=bid_id,
            slot=slot,
            admitted=False,
            value=0.0,
            payment=0.0,
            payoff=0.0,
            schedule=None,
            reason=reason,
            explanation=explanation,
            counter=counter,
            standalone_value=standalone_value,
            density=tuple(density),
            prices={} if prices is None else prices,
        )

    @property
    def counted(self) -> tuple[tuple[float, ...], float]:
        """The density and the standalone value that prices learn from (`counted_offer`)."""
        return counted_offer(self.density, self.standalone_value, self.offer_factors)

    def to_json(self) -> Json:
        """Return the receipt as a document of finite numbers; `from_json` reads it back, without moves."""
        counter = self.counter
        return {
            "bid_id": self.bid_id,
            "slot": self.slot,
            "admitted": self.admitted,
            "value": self.value,
            "payment": self.payment,
            "payoff": self.payoff,
            "schedule": None if self.schedule is None else self.schedule.to_json(),
            "reason": None if self.reason is None else str(self.reason),
            "explanation": self.explanation,
            "counter": None
            if counter is None
            else {
                "least_value": counter.least_value,
                "latest_start": counter.latest_start,
                "completion": counter.completion,
            },
            "standalone_value": self.standalone_value,
            "density": list(self.density),
            **({"offer_factors": list(self.offer_factors)} if self.offer_factors else {}),
            "prices": self.prices,
            **({} if self.due is None else {"due": self.due}),
        }

    @classmethod
    def from_json(cls, document: Json) -> "Decision":
        """Read what `to_json` wrote."""
        schedule, reason, counter = document["schedule"], document["reason"], document["counter"]
        return cls(
            **{
                **document,
                "schedule": None if schedule is None else Schedule.from_json(schedule),
                "reason": None if reason is None else Reason(reason),
                "counter": None if counter is None else CounterOffer(**counter),
                "density": tuple(document["density"]),
                "offer_factors": tuple(document.get("offer_factors", ())),
            }
        )


def counted_offer(
    density: Sequence[float], standalone_value: float, factors: Sequence[float]
) -> tuple[tuple[float, ...], float]:
    """Return the density and the standalone value that prices learn from.

    The value is multiplied by the least factor of the resources that the bid uses: that of the resource for which it
    offers most, beside recent offers.

    Examples
    --------
    >>> from scheduling.model.decision import counted_offer
    >>> counted_offer((8.0, 2.0, 0.0), 16.0, (0.25, 0.5, 1.0))
    ((2.0, 1.0, 0.0), 4.0)
    """
    if not factors:
        return tuple(density), standalone_value
    pairs = list(zip(density, factors, strict=True))
    least = min((factor for offered, factor in pairs if offered > 0.0), default=1.0)
    return tuple(factor * offered for offered, factor in pairs), least * standalone_value


def canonical(document: object) -> str:
    """Return the canonical JSON text: sorted keys, no spaces, shortest floats that read back equal, no NaN.

    Examples
    --------
    >>> canonical({"b": 0.1, "a": [1, None]})
    '{"a":[1,null],"b":0.1}'
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse(text: str) -> Json:
    """Read what `canonical` wrote."""
    return cast(Json, json.loads(text))
