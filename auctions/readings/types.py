"""Types of a market's readings: frozen dataclasses of numbers and arrays."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from auctions.models import BidState, Certificate
from cluster.models import MachineRole
from scheduling.model.types import Floats, Ints
from scheduling.policies.base import Objective

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Summary:
    """Summary of a market.

    These equations hold: submitted = admitted + rejected + undecided + standing + withdrawn + quarantined;
    admitted = planned + running + completed + cancelled + failed; welfare = payoff + revenue.
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
    undecided: int
    standing: int | None
    """Rejected bids that are tried again; None in published figures, where they count as rejected."""
    withdrawn: int
    quarantined: int
    """Bids on which the policy failed; an operator decides what to do with them."""
    planned: int
    running: int
    completed: int
    cancelled: int
    failed: int
    welfare: float
    revenue: float | None
    payoff: float | None
    """Welfare less revenue. Both are None in published figures where bids compete or competed."""
    acceptance: float | None
    """Share of the decided bids; None while there are none."""
    utilisation: float
    """Mean over resources of the share in use in the last slot that began."""
    price: float
    """Mean posted price of a unit in slot `now`, over all units for sale."""
    bound: Certificate | None
    objective: Objective
    """The objective of the policy in force."""
    in_line: int
    """Planned jobs without a start yet."""
    mean_wait_slots: float | None
    """Mean of start - arrival over the jobs that have started, slots; None while there are none."""
    mean_jct_slots: float | None
    """Mean of completion - arrival over completed jobs, slots; None while there are none."""
    weighted_jct_slots: float | None
    """The same, weighted by the jobs' values."""
    published: int | None = None
    """Slot at whose beginning the counts, sums of money and times were published; None if they are present figures."""


@dataclass(frozen=True)
class Flow:
    """JCTs of J completed jobs, in order of completion, and their mean at K times."""

    sequence: Ints
    """Sequence numbers of the jobs, J."""
    slot: Ints
    """Slot of completion, J."""
    flow: Ints
    """Slots from arrival to completion, J."""
    mean_slot: Ints
    """Slots at which the means are taken, K."""
    mean: Floats
    """Mean over all jobs so far, slots, K."""
    weighted_mean: Floats | None
    """The same, weighted by the jobs' values, K; None if it is not published."""


@dataclass(frozen=True)
class Machines:
    """Numbers of machines that a job holds, past and planned, in slots [start, start + T)."""

    start: int
    workers: Ints
    num_ps: Ints


@dataclass(frozen=True)
class Prices:
    """Posted prices of slots [start, start + T): of a past slot when it began, of a future slot at present."""

    start: int
    now: int
    servers: tuple[str, ...]
    resources: tuple[str, ...]
    price: Floats
    """T x S x R, money per unit and slot; 0 if not known."""
    known: Bools
    """T: False for a past slot without stored prices."""
    closed: Bools
    """T x S: whether the server is drained or lost in the slot, so that it takes no new work and sells nothing."""


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
    """S x R, units, at present; a server out of service counts with its full capacity."""
    closed: Bools
    """T x S: whether the server takes no new work in the slot."""

    @property
    def share(self) -> Floats:
        """Share of all servers' units in use, by resource, T x R; 0 where there are no units."""
        total = self.capacity.sum(axis=0)
        shares: Floats = self.used.sum(axis=1) / np.where(total > 0, total, 1)
        return shares


@dataclass(frozen=True)
class Welfare:
    """Welfare after each decision or publication, cumulative; cancelled and failed jobs gave no value."""

    decided: Ints
    """Bids decided so far, J."""
    slot: Ints
    """First slot that could still be traded at the decision; for a publication, the slot that began, J."""
    seconds: Floats
    """Cluster time of the decision or publication, seconds after the epoch, J."""
    welfare: Floats
    """Sum of values so far, J."""
    revenue: Floats | None
    """Sum of payments so far, J; None if it is not published."""
    sequence: Ints | None
    """Sequence number of each decided bid, J; None for publications, which are sums over several bids."""
    zero_price_bound: Floats | None
    """Zero-price bound on the welfare of the bids decided so far, J; None if it is not published."""
    bound: Certificate | None


@dataclass(frozen=True)
class Bar:
    """Machines of one type on one server, held in slots [start, end) by one job, or by all jobs of others together.

    Start and end are whole slots, except for queued jobs.
    """

    sequence: int | None
    """None for other people's jobs: it is not shown which of their machines belong to one job."""
    label: str
    mine: bool
    server: str
    machine_type: str
    role: MachineRole
    count: int
    start: float
    end: float
    state: BidState | None
    """State of the job; None for other people's jobs."""
