"""The offline problem, in hindsight of all jobs, and its answer."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.policies.base import Objective


class Covers(StrEnum):
    """The schedules for which a bound holds: each member allows all that the next one allows, and more."""

    ANY = "any"
    """Every schedule of every policy: at any moment a job holds whole machines of one worker type and one PS type, as
    many workers as it has chunks at most, whenever and wherever, stopped and moved at any moment at no cost."""
    ELASTIC = "elastic"
    """OASiS: whole workers and PSs, other numbers in every slot; PSs for all workers' bandwidth, and every mini-batch
    is sent over the network (constraints 2 to 7)."""
    RIGID = "rigid"
    """DPS, weighted completion and fixed gangs that are never stopped: the same machines over one window of slots.
    Not within ELASTIC: machines on one server do without transfer."""
    QUEUED = "queued"
    """Preemptive edge-cloud, chunks that never move: each is processed by the worker it is sent to. Completions count
    at their exact time, not at the end of their slot."""


class Kind(StrEnum):
    """The proof of a bound."""

    MILP_OPTIMAL = "milp_optimal"
    """An integer program solved to the end: the bound is the optimum."""
    MILP_BOUND = "milp_bound"
    """An integer program stopped before the end: what is left open is no better than the bound."""
    COMPACT_LP = "compact_lp"
    """The linear relaxation of the integer program."""
    LAGRANGIAN = "lagrangian"
    """Weak duality at prices improved step by step."""
    DUAL_AT_PRICES = "dual_at_prices"
    """Weak duality at given prices."""
    ALONE = "alone"
    """Every job as if the cluster were its own."""


@dataclass(frozen=True)
class OfflineProblem:
    """Find the best objective value that any schedule of these jobs could have had."""

    bids: tuple[Bid, ...]
    """All submitted bids; for an objective that is minimised, all completed ones."""
    inventory: Inventory
    start: int
    """First slot in which anything runs."""
    end: int
    """End of the horizon: slots before this one are modelled one by one."""
    objective: Objective = Objective.WELFARE
    """WELFARE: most money; WEIGHTED_COMPLETION: least sum of weight x completion; COMPLETION: least sum of
    completion - arrival, slots."""
    covers: Covers = Covers.ANY
    open_end: bool = True
    """Whether the bound also holds for schedules that continue beyond `end`, where all machines count as free."""
    used: Ints | None = None
    """Units in use before the first job, (end - start) x S x R; None: none."""
    tail: int = 0
    """Slots that a rigid job holds beyond completion, which are before `end` (DPS, inclusive windows)."""
    known: float | None = None
    """Objective value of a known schedule, the incumbent until a better one is found."""

    def __post_init__(self) -> None:
        if self.end <= self.start:
            raise InvalidField("end", f"expected more than start = {self.start}, got {self.end}")
        shape = (self.end - self.start, *self.inventory.capacity.shape)
        if self.used is not None and self.used.shape != shape:
            raise InvalidField("used", f"expected shape {shape}, got {self.used.shape}")
        if self.used is not None and ((self.used < 0) | (self.used > self.inventory.capacity)).any():
            raise InvalidField("used", "expected units from 0 to the capacity, got other numbers")
        if self.covers is Covers.QUEUED and self.objective is not Objective.COMPLETION:
            raise InvalidField("objective", f"expected completion for queued schedules, got {self.objective}")
        for i, bid in enumerate(self.bids):
            if len(bid.delay) != len(self.inventory.servers):
                raise InvalidField(
                    f"bids[{i}].delay", f"expected {len(self.inventory.servers)} numbers, got {len(bid.delay)}"
                )

    @property
    def slots(self) -> int:
        """T, the number of slots."""
        return self.end - self.start

    @property
    def most(self) -> bool:
        """Whether the objective is maximised."""
        return self.objective is Objective.WELFARE

    def free(self) -> Ints:
        """Return the units that are not in use, T x S x R."""
        whole = np.broadcast_to(self.inventory.capacity, (self.slots, *self.inventory.capacity.shape))
        return whole if self.used is None else whole - self.used


@dataclass(frozen=True)
class Answer:
    """A proved bound, and the objective value of the best known schedule."""

    kind: Kind
    covers: Covers
    bound: float
    """No covered schedule has a better objective value."""
    incumbent: float | None
    """Objective value of the best schedule found; None if none was found."""
    steps: int = 0
    """Nodes of the branch-and-bound tree, or best responses of the subgradient method."""

    @property
    def gap(self) -> float | None:
        """Relative difference of bound and incumbent, over the smaller of both; None if there is no incumbent."""
        if self.incumbent is None:
            return None
        difference, base = abs(self.bound - self.incumbent), min(abs(self.bound), abs(self.incumbent))
        if difference <= 1e-9 * max(abs(self.bound), abs(self.incumbent)):
            return 0.0
        return difference / base if base > 0 else None
