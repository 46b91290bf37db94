"""The papers' generators as workloads, in one list. To add one, write a module and an entry here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import EnumType
from functools import partial
from typing import Any, Final, get_args, get_origin, get_type_hints

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.utility import Sigmoid, Step
from scheduling.model.validation import check_each, check_integer, check_list, check_number, check_object, shown
from studies.workloads.generated import dps, oasis, preemptive, weighted_completion
from studies.workloads.simulation.replay import LONGEST_HORIZON, ReplayParameters
from studies.workloads.traces.mapping import TracedBids
from studies.workloads.workload import Workload

NOTE: Final = "all synthetic: jobs, servers and values drawn from the seed by the paper's settings"
LARGEST: Final = {"jobs": 5000, "servers": 1000, "slots": 2000, "span": 2000}
"""Largest values of a setting; other whole numbers go up to 200."""
ANY_OTHER: Final = 200


@dataclass(frozen=True)
class Generator:
    """One paper's simulations."""

    title: str
    setting: type[Any]
    draw: Callable[[Any, np.random.Generator], Any]
    """Draw a system with `inventory` and `bids`."""
    slot_s: int
    horizon: Callable[[Any], int]
    """Return the horizon in slots, from the setting."""
    modest: Json
    """A setting that every policy can run in seconds."""
    largest: Mapping[str, int] = field(default_factory=dict)
    """Smaller limits than LARGEST, where memory of a worker requires them."""


GENERATORS: Final[Mapping[str, Generator]] = {
    "dps": Generator(
        "DPS, Section 6.1: edge servers and a cloud",
        dps.Setting,
        dps.draw,
        dps.SLOT_SECONDS,
        lambda setting: int(setting.slots),
        {"jobs": 100, "servers": 20},
    ),
    "oasis": Generator(
        "OASiS, Section V-A: workers and parameter servers apart",
        oasis.Setting,
        oasis.draw,
        oasis.SLOT_SECONDS,
        lambda setting: int(setting.slots),
        {"jobs": 60, "servers": 10},
        largest={"jobs": 2000},  # each job has its own machine types, and times on all others': 250 MB
    ),
    "preemptive": Generator(
        "Preemptive edge-cloud, Section V",
        preemptive.Setting,
        preemptive.draw,
        preemptive.SLOT_SECONDS,
        lambda setting: 10 * int(setting.span),
        {"jobs": 60, "servers": 10, "span": 60},
    ),
    "weighted_completion": Generator(
        "Weighted completion, Section 7",
        weighted_completion.Setting,
        weighted_completion.draw,
        weighted_completion.SLOT_SECONDS,
        lambda setting: 10 * int(setting.slots),
        {"jobs": 60, "servers": 20, "slots": 60},
    ),
}


@dataclass(frozen=True)
class GeneratorSource:
    """A generator with its setting: with a seed, a workload."""

    generator: str
    setting: Any

    @property
    def title(self) -> str:
        """Title to show to users."""
        return f"{GENERATORS[self.generator].title}, {self.setting.jobs} jobs"

    def with_jobs(self, jobs: int) -> "GeneratorSource":
        """Return the same source with this number of jobs."""
        return replace(self, setting=replace(self.setting, jobs=jobs))

    def draw(self, seed: int) -> Workload:
        """Draw the workload of a seed; the same seed gives the same workload."""
        generator = GENERATORS[self.generator]
        system = generator.draw(self.setting, np.random.default_rng(seed))
        horizon = min(LONGEST_HORIZON, max(1, generator.horizon(self.setting)))
        plan = ReplayParameters(generator.slot_s, horizon)
        return Workload(_jobs(system.bids, plan.slot_s), system.inventory, plan, NOTE)

    def to_json(self) -> Json:
        """Return a document that `read_generator` can read."""
        values = {one.name: getattr(self.setting, one.name) for one in fields(self.setting)}
        setting = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        return {"generator": self.generator, "setting": setting}


def read_generator(document: object, where: str) -> GeneratorSource:
    """Read a source from a document; missing settings are the paper's. Raises InvalidField."""
    row = check_object(where, document, required=["generator"], optional=["setting"])
    name, inside = row["generator"], f"{where}." if where else ""
    if not isinstance(name, str) or name not in GENERATORS:
        raise InvalidField(f"{inside}generator", f"expected one of {', '.join(GENERATORS)}, got {shown(name)}")
    kind, largest = GENERATORS[name].setting, {**LARGEST, **GENERATORS[name].largest}
    hints = get_type_hints(kind)
    given = check_object(f"{inside}setting", row.get("setting", {}), required=[], optional=list(hints))
    values = check_each(
        partial(_value, f"{inside}setting.{key}", value, hints[key], largest.get(key, ANY_OTHER))
        for key, value in given.items()
    )
    return GeneratorSource(name, kind(**dict(zip(given, values, strict=True))))


def _value(where: str, value: object, hint: Any, largest: int) -> Any:
    """Read one value of a setting by the type of its field; whole numbers up to `largest`."""
    if get_origin(hint) is tuple:
        kinds = get_args(hint)
        rows = check_list(where, value, length=len(kinds))
        numbers = check_each(partial(_value, f"{where}[{i}]", row, kinds[i], largest) for i, row in enumerate(rows))
        return _range(where, tuple(numbers))
    if hint is int:
        return check_integer(where, value, low=1, high=largest)
    if hint is float:
        return check_number(where, value, low=0.0, high=1.0)
    if isinstance(hint, EnumType):
        members: list[Any] = list(hint)
        for member in members:
            if member.value == value:
                return member
        raise InvalidField(where, f"expected one of {', '.join(str(one.value) for one in members)}, got {shown(value)}")
    if not isinstance(value, str):
        raise InvalidField(where, f"expected a string, got {shown(value)}")
    return value


def _range(where: str, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """Check numbers: a pair is a range from low to high; more numbers are shares that sum to 1."""
    if len(numbers) == 2 and numbers[0] > numbers[1]:
        raise InvalidField(where, f"expected low <= high, got {numbers[0]:g} and {numbers[1]:g}")
    if len(numbers) > 2 and abs(sum(numbers) - 1) > 1e-9:
        raise InvalidField(where, f"expected shares that add up to 1, got {sum(numbers):g}")
    return numbers


def _jobs(bids: tuple[Bid, ...], slot_s: int) -> TracedBids:
    """Return the jobs of one tenant; a target is the time at which the value begins to fall, if it does."""
    targets = {bid.id: _target(bid) for bid in bids}
    return TracedBids(
        bids=bids,
        submitted_s={bid.id: float(bid.arrival * slot_s) for bid in bids},
        tenants={bid.id: "" for bid in bids},
        runs_s={},
        targets_s={name: float(slot * slot_s) for name, slot in targets.items() if slot is not None},
        synthetic=("everything",),
        declared=(),
        refused=(),
    )


def _target(bid: Bid) -> float | None:
    """Return the slot by which the job should be complete; None if there is no such slot."""
    utility = bid.utility
    if isinstance(utility, Sigmoid) and utility.g2 > 0 and utility.g3 > 0:
        return bid.arrival + utility.g3
    return bid.arrival + utility.deadline if isinstance(utility, Step) else None
