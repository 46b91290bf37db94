"""What readings of a market look like: frozen dataclasses of numbers and arrays."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from auctions.models import BidState, BoundKind
from cluster.models import MachineRole
from scheduling.model.types import Floats, Ints
from scheduling.policies.base import Objective

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class BoundReading:
    """The certified upper bound on welfare, named by kind."""

    kind: BoundKind
    value: float
    zero_price: float
    posted_price: float
    welfare: float
    gap: float
    decided: int
    loose: int
    version: int
    took_ms: float
    computed_at: datetime


@dataclass(frozen=True)
class Summary:
    """A market at a glance. Counts obey: submitted = admitted + rejected + waiting + withdrawn
    + quarantined, and admitted = planned + running + completed + cancelled + failed; welfare = bidder_payoff + revenue.
    """

    version: int
    ledger_version: int
    slot: int
    """The last slot that has begun."""
    now: int
    """The first slot that can still be traded."""
    end: int
    """First slot beyond the horizon."""
    read_at: datetime
    is_open: bool
    policy: str
    policy_number: int
    submitted: int
    admitted: int
    rejected: int
    waiting: int
    withdrawn: int
    quarantined: int
    """Bids on which the policy failed; an operator decides what becomes of them."""
    planned: int
    running: int
    completed: int
    cancelled: int
    failed: int
    welfare: float
    revenue: float
    bidder_payoff: float
    admitted_share: float | None
    """Of the decided bids; None while there are none."""
    utilisation: float
    """Mean over resources of the share in use in the last slot that began."""
    price: float
    """Mean posted price of a unit in slot `now`, over all units for sale."""
    bound: BoundReading | None
    objective: Objective
    """What the policy in force tries to make as good as it can be."""
    in_line: int
    """Planned jobs without a start yet."""
    mean_wait: float | None
    """Mean of start - arrival over the jobs that have started, slots; None while there are none."""
    mean_flow: float | None
    """Mean of completion - arrival over completed jobs, slots; None while there are none."""
    weighted_flow: float | None
    """The same, weighted by the jobs' values."""
    published: int | None = None
    """Slot in whose beginning the counts, sums of money and times were taken; None: they are as of now."""


@dataclass(frozen=True)
class Flow:
    """Time from arrival to completion: of J completed jobs, in order of completion, and its mean at K times."""

    sequence: Ints
    """J."""
    slot: Ints
    """Slot of completion, J."""
    flow: Ints
    """Slots from arrival to completion, J."""
    mean_slot: Ints
    """Slots of which the means are, K."""
    mean: Floats
    """Mean over all jobs so far, slots, K."""
    weighted_mean: Floats | None
    """The same, weighted by the jobs' values, K; None where it is not published."""


@dataclass(frozen=True)
class Machines:
    """How many machines a job holds, past and promised, in slots [start, start + T)."""

    start: int
    workers: Ints
    pss: Ints


@dataclass(frozen=True)
class Prices:
    """Posted prices of slots [start, start + T): as they stood when a past slot began, as they are for the future."""

    start: int
    now: int
    servers: tuple[str, ...]
    resources: tuple[str, ...]
    price: Floats
    """T x S x R, money per unit and slot; 0 where not known."""
    known: Bools
    """T: False for a past slot of which no prices were kept."""
    closed: Bools
    """T x S: whether the server takes no new work in the slot, as it is drained or lost: nothing is for sale there."""


@dataclass(frozen=True)
class Utilisation:
    """Units held in slots [start, start + T) against capacity."""

    start: int
    now: int
    servers: tuple[str, ...]
    resources: tuple[str, ...]
    used: Ints
    """T x S x R, units."""
    capacity: Ints
    """S x R, units, as it is now; of a server out of service, what it has."""
    closed: Bools
    """T x S: whether the server takes no new work in the slot."""

    @property
    def share(self) -> Floats:
        """Share in use of all servers' units of each resource, T x R; 0 where there are none."""
        total = self.capacity.sum(axis=0)
        shares: Floats = self.used.sum(axis=1) / np.where(total > 0, total, 1)
        return shares


@dataclass(frozen=True)
class Welfare:
    """Welfare after each decision or publication, cumulative; cancelled and failed jobs gave no value."""

    decided: Ints
    """Bids decided so far, J."""
    slot: Ints
    """First slot that could still be traded at the decision; of a publication, the slot that began, J."""
    seconds: Floats
    """Cluster time of the decision or publication, seconds after the epoch, J."""
    welfare: Floats
    """Sum of values so far, J."""
    revenue: Floats
    """Sum of payments so far, J."""
    sequence: Ints | None
    """Sequence number of each decided bid, J; None of publications, each of which is a sum over several bids."""
    zero_price_bound: Floats | None
    """Zero-price bound on the welfare of the bids decided so far, J; None where it is not published."""
    bound: BoundReading | None


@dataclass(frozen=True)
class Bar:
    """Machines of one type on one server held in slots [start, end), whole slots unless from a queue.

    Held for one job, or for all jobs of others together.
    """

    sequence: int | None
    """None of other people's jobs: which of their machines belong together is not said."""
    label: str
    mine: bool
    server: str
    machine_type: str
    role: MachineRole
    count: int
    start: float
    end: float
    state: BidState | None
    """Of the job; None of other people's."""
