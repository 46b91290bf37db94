"""Check a bid as it is sent, in seconds, MB and Mbit/s, by the shape that also describes it in OpenAPI.

A bid of the wrong form is refused here; forms of utilities are in `utilities.py`. There is no budget: a payment is
never above the value that the bid states.
"""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from django.contrib.auth.models import User
from rest_framework.exceptions import ValidationError
from rest_framework.fields import empty

from auctions.domain import programs
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.standing_rule import RULE
from auctions.domain.utilities import SECONDS_AFTER_ARRIVAL, UTILITIES
from cluster.database.prepared import Prepared
from cluster.models import (
    LARGEST_CHUNKS,
    LARGEST_MB,
    LARGEST_MINIBATCHES,
    LARGEST_SECONDS,
    Cluster,
    MachineRole,
    ModelProfile,
    StepTime,
)
from scheduling.model.bid import Architecture
from scheduling.model.types import Json
from scheduling.model.validation import LARGEST_MONEY, shown
from scheduling.policies.base import Objective
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.policies.standing import rule_for
from web.fields import ByName, Choice, Flag, Integer, Number, OneOf, Rows, Text, any_of
from web.schema import Schema, named

LARGEST_EPOCHS: Final = 1_000_000
LARGEST_LABEL: Final = 120
LARGEST_PROGRAM_NAME: Final = 60
MOST_ARGUMENTS: Final = 64
LARGEST_ARGUMENT: Final = 1000
MOST_STEPS: Final = 1_000_000_000
LARGEST_SEQUENCE: Final = 2**53
LEAST_WEIGHT: Final = 1e-6
"""Prices are scaled by the least weight per unit. A far smaller weight would leave no precision for other bids."""
ARCHITECTURES: Final = {one.value: one for one in Architecture}
RING_KEYS: Final = ("reduce_step_s",)
PROFILE_KEYS: Final = ("chunks", "minibatches", "gradient_mb", "worker_step_s", "ps_step_s")
NOT_FOR: Final[Mapping[str, tuple[str, ...]]] = {Architecture.PS: RING_KEYS, Architecture.RING: ("ps_step_s",)}
"""Keys that do not apply to a job of this architecture."""
VALUE_KEYS: Final = {
    Objective.WELFARE: "utility",
    Objective.WEIGHTED_COMPLETION: "weight",
    Objective.COMPLETION: "weight",
}
"""Key that states the value of a completion, by the objective of the policy in force."""
DEFAULTS: Final[Mapping[Objective, Json]] = {Objective.COMPLETION: {"weight": 1}}
"""Default values by objective: the weight, where it is displayed but not used."""
_PROFILE = Prepared(lambda cluster, name: ModelProfile.objects.filter(cluster=cluster, name=name), int, str)
_STEP_TIMES = Prepared(
    lambda profile: StepTime.objects.filter(profile=profile).values_list(
        "machine_type__role", "machine_type__name", "seconds"
    ),
    int,
)


@dataclass(frozen=True)
class BidContext:
    """The context of checks of bids: a cluster, its inventory, and the policy class in force."""

    cluster: Cluster
    snapshot: InventorySnapshot
    policy: type[Any]
    bidder: User | None = None
    """The user who bids; None if a quote is asked for nobody."""
    profiles: dict[str, Json] = field(default_factory=dict)
    """The profiles that were read so far, by the names of their models."""

    @cached_property
    def value_key(self) -> str:
        """The key that states the value of a completion."""
        return VALUE_KEYS[self.policy.objective]

    @cached_property
    def defaults(self) -> Json:
        """Values of keys that may be left out, whatever the model."""
        stands = {"standing": self.cluster.standing_by_default} if self.posts_prices else {}
        return {"start_after_s": 0, "upload_delay_s": {}, **stands, **DEFAULTS.get(self.policy.objective, {})}

    @cached_property
    def architectures(self) -> frozenset[Architecture]:
        """The architectures that the policy runs, and for which the cluster has machines."""
        found: frozenset[Architecture] = self.policy.architectures
        return found if self.snapshot.inventory.parameter_servers else found - {Architecture.PS}

    @property
    def posts_prices(self) -> bool:
        """Whether the policy rejects bids for posted prices, so that they may stand."""
        return issubclass(self.policy, PostedPricePolicy)

    def profile(self, name: object) -> Json | None:
        """Return the profile of a model as keys of a body; None if the cluster has no such model."""
        if not isinstance(name, str):
            return None
        if name not in self.profiles:
            found = _PROFILE.first(self.cluster.pk, name)
            if found is None:
                return None
            self.profiles[name] = _keys_of(found)
        return self.profiles[name]

    def names(self, field: str) -> Sequence[str]:
        """Return the names that a field by name may have."""
        inventory = self.snapshot.inventory
        if field == "upload_delay_s":
            return inventory.servers
        return [
            machine.name for machine in (inventory.workers if field == "worker_step_s" else inventory.parameter_servers)
        ]


def _keys_of(profile: ModelProfile) -> Json:
    steps: dict[str, dict[str, float]] = {MachineRole.WORKER: {}, MachineRole.PS: {}}
    for role, machine, seconds in _STEP_TIMES(profile.pk):
        steps[role][machine] = seconds
    return {
        "chunks": profile.chunks,
        "minibatches": profile.minibatches,
        "gradient_mb": profile.gradient_mb,
        "worker_step_s": steps[MachineRole.WORKER],
        "ps_step_s": steps[MachineRole.PS],
    }


class Seconds(ByName):
    """Seconds by the name of a machine type or server of the cluster."""

    def __init__(self, *, least: int = 0, **more: Any) -> None:
        super().__init__(Number(0, LARGEST_SECONDS), least=least, **more)

    def names(self) -> Sequence[str] | None:
        """Return the names that the cluster has."""
        bids: BidContext = self.context["bids"]
        return bids.names(str(self.field_name))


class UntilSeconds(Number):
    """The time until which a bid stands: not before the first turn in which it may be tried again."""

    def least(self) -> float:
        """Return the time of that turn; a bid that ends before it would never stand."""
        bids: BidContext = self.context["bids"]
        return float(rule_for(bids.policy).least_stand * bids.snapshot.slot_seconds)


class ProgramIn(Schema):
    name = Text(LARGEST_PROGRAM_NAME, help_text="Name of a program that you may run on this cluster.")
    arguments = Rows(
        Text(LARGEST_ARGUMENT, blank=True),
        most=MOST_ARGUMENTS,
        required=False,
        help_text="Arguments after those of the program itself; no shell reads them.",
    )
    steps = Integer(1, MOST_STEPS, required=False, help_text="Steps of the whole training, to measure progress by.")
    continues = Integer(
        1,
        LARGEST_SEQUENCE,
        required=False,
        help_text="Number of an earlier bid of yours with this program, whose training has ended: this one resumes from"
        " its newest checkpoint.",
    )

    def wrong_keys(self, data: dict[str, Any]) -> Mapping[str, str]:
        """Return why the bidder may not run the program on the cluster, whatever else is wrong in the body."""
        bids: BidContext = self.context["bids"]
        stated = {key: data[key] for key in ("name", "continues") if self._is_right(key, data)}
        return programs.problems(bids.cluster, bids.bidder, stated) if "name" in stated else {}

    def _is_right(self, key: str, data: dict[str, Any]) -> bool:
        """Return whether a field is there and has the right form."""
        try:
            return key in data and self.fields[key].run_validation(data[key]) == data[key]
        except ValidationError:
            return False


class BidIn(Schema):
    label = named(Text(LARGEST_LABEL, blank=True, line=True, required=False, help_text="Your name for the job."))
    model = Text(60, required=False, help_text="A model of this cluster; its profile gives what the bid leaves out.")
    epochs = Integer(1, LARGEST_EPOCHS, help_text="Passes over the data.")
    chunks = Integer(1, LARGEST_CHUNKS, required=False, help_text="Data chunks; the most workers at a time.")
    minibatches = Integer(1, LARGEST_MINIBATCHES, required=False, help_text="Mini-batches in a chunk.")
    gradient_mb = Number(0, LARGEST_MB, required=False, help_text="Size of the gradients, MB.")
    worker_step_s = Seconds(
        least=1, required=False, help_text="Seconds that a mini-batch takes on a worker, by worker type."
    )
    ps_step_s = Seconds(
        least=1,
        required=False,
        help_text="Seconds that an update takes on a parameter server, by parameter-server type; not for a ring.",
    )
    reduce_step_s = Number(
        0,
        LARGEST_SECONDS,
        required=False,
        help_text="For a ring: seconds that a worker takes to reduce the gradients of a mini-batch; 0 if not given.",
    )
    upload_delay_s = Seconds(
        required=False, help_text="Seconds to upload the data, by server; the server's own delay if not given."
    )
    start_after_s = Number(
        0,
        LARGEST_SECONDS,
        required=False,
        help_text=f"The job does not start before this many {SECONDS_AFTER_ARRIVAL}; 0 if not given.",
    )
    chunk_mb = Number(
        0,
        LARGEST_MB,
        required=False,
        help_text="Storage that the data of a chunk takes on its server until the job is complete, MB; 0 if not given.",
    )
    architecture = Choice(
        Architecture,
        required=False,
        help_text="How workers exchange gradients: ps (parameter servers, if not given) or ring (Ring-AllReduce).",
    )
    standing = Flag(
        required=False,
        help_text="Whether the bid stands if it is rejected for its price or for lack of room: it is tried again until"
        " it is worth nothing. The cluster's `standing_by_default` if not given; only where prices are posted.",
    )
    standing_until_s = UntilSeconds(
        0,
        LARGEST_SECONDS,
        required=False,
        help_text=f"A standing bid is not tried again later than this, {SECONDS_AFTER_ARRIVAL}; it may end earlier."
        f" At least {RULE.every} slots, as a standing bid is not tried in every slot; one slot where bids compete,"
        " which are tried whenever a job has ended.",
    )
    utility = OneOf(
        "form",
        {form: shape() for form, shape in UTILITIES.items()},
        required=False,
        help_text="Value of the completion, by time, in one of these forms; for clusters whose `value_key` is utility.",
    )
    weight = Number(
        LEAST_WEIGHT,
        LARGEST_MONEY,
        required=False,
        help_text="How much an early completion counts; for clusters whose `value_key` is weight.",
    )
    program = ProgramIn(
        required=False,
        help_text="The program to run on the machines that are granted, on clusters whose jobs this service runs. It"
        " does not change the decision.",
    )

    def run_validation(self, data: Any = empty) -> Any:
        """Check a body against a market; without one in the context, leave it for the check that has one."""
        return super().run_validation(data) if "bids" in self.context else data

    def filled_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """Fill in the profile of the model and the defaults."""
        filled = {**(self._bids.profile(data.get("model")) or {}), **self._bids.defaults}
        if self._architecture(data) is Architecture.RING:
            filled |= dict.fromkeys(RING_KEYS, 0)
        return {**{key: value for key, value in filled.items() if key in self._needed(data)}, **data}

    def wrong_keys(self, data: dict[str, Any]) -> Mapping[str, str]:
        """Refuse what this market does not run, and keys that it does not take or that are missing."""
        policy = self._bids.policy
        architecture = self._architecture(data)
        wrong = {}
        if "model" in data and self._bids.profile(data["model"]) is None:
            known = list(ModelProfile.objects.filter(cluster=self._bids.cluster).values_list("name", flat=True))
            wrong["model"] = f"expected a model of this cluster ({any_of(known)}), got {shown(data['model'])}"
        if architecture is None:
            expected = any_of(sorted(str(one) for one in self._bids.architectures))
            stated = shown(data.get("architecture", Architecture.PS.value))
            lacks = "" if self._bids.snapshot.inventory.parameter_servers else "; the cluster has no parameter servers"
            wrong["architecture"] = f"expected {expected}, got {stated} (the policy is {policy.title}{lacks})"
        for key in self._not_for(data):
            if key in data and architecture is not None:
                wrong[key] = f"not for a job of architecture {architecture}; leave it out"
        if data.get("standing") is True and not self._bids.posts_prices:
            wrong["standing"] = f"expected false: without posted prices no bid stands (the policy is {policy.title})"
        if "standing_until_s" in data and not self.filled_in(data).get("standing"):
            wrong["standing_until_s"] = "expected only in a bid whose `standing` is true"
        for key in set(VALUE_KEYS.values()) - {self._bids.value_key}:
            if key in data:
                wrong[key] = f"this cluster takes a {self._bids.value_key} instead ({policy.title})"
        return {**wrong, **self._missing(data, model_unknown="model" in wrong)}

    def known_keys(self, data: dict[str, Any]) -> list[str]:
        """Return the keys that this market takes from a job of this architecture."""
        other = {*self._not_for(data), *VALUE_KEYS.values()} - {self._bids.value_key}
        return [key for key in super().known_keys(data) if key not in other]

    def _missing(self, data: dict[str, Any], *, model_unknown: bool) -> dict[str, str]:
        there = self.filled_in(data)
        missing = [key for key in self._needed(data) if key not in there]
        if model_unknown:
            missing = [key for key in missing if key not in PROFILE_KEYS]
        return {
            key: "missing; give it, or a model whose profile has it" if key in PROFILE_KEYS else "missing"
            for key in missing
        }

    def _needed(self, data: dict[str, Any]) -> list[str]:
        """Return the keys that a complete bid of this architecture has."""
        other = self._not_for(data)
        always = (*PROFILE_KEYS, *RING_KEYS, "upload_delay_s", "start_after_s", self._bids.value_key)
        stands = ("standing",) if self._bids.posts_prices else ()
        return [key for key in (*always, *stands) if key not in other]

    def _not_for(self, data: dict[str, Any]) -> tuple[str, ...]:
        """Return the keys that are not for this architecture; of a wrong one, those that not all of them have."""
        architecture = self._architecture(data)
        return tuple(key for one, keys in NOT_FOR.items() for key in keys if architecture in (None, one))

    def _architecture(self, data: dict[str, Any]) -> Architecture | None:
        """Return the architecture of a body; None if this market runs no jobs of what it states."""
        stated = data.get("architecture", Architecture.PS.value)
        found = ARCHITECTURES.get(stated) if isinstance(stated, str) else None
        return found if found in self._bids.architectures else None

    @property
    def _bids(self) -> BidContext:
        bids: BidContext = self.context["bids"]
        return bids
