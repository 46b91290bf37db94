"""Check a bid's body, in seconds, MB and Mbit/s, and convert it to the core's bid, in slots.

There are two steps. `resolve` checks a body and fills in the model's profile, by name. `core_bid` converts the result
for one inventory. It cannot fail, so a waiting bid stays decidable when servers or machine types come and go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import isfinite
from typing import Any, Final

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import PolicyVersion
from cluster import units
from cluster.models import (
    LARGEST_CHUNKS,
    LARGEST_MB,
    LARGEST_MINIBATCHES,
    LARGEST_SECONDS,
    Cluster,
    MachineRole,
    ModelProfile,
)
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField, OutOfRange
from scheduling.model.types import Json
from scheduling.model.utility import utility_from_json
from scheduling.model.validation import LARGEST_MONEY, check_integer, check_list, check_number, check_object
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES

LARGEST_EPOCHS: Final = 1_000_000
SMALLEST_ZERO_S: Final = 0.001
"""Smallest `zero_at_s`, seconds. The value is divided by it, so it must not be close to 0."""
LARGEST_LABEL: Final = 120
COUNTS: Final = {"epochs": LARGEST_EPOCHS, "chunks": LARGEST_CHUNKS, "minibatches": LARGEST_MINIBATCHES}
PROFILE_KEYS: Final = ("chunks", "minibatches", "gradient_mb", "worker_step_s", "ps_step_s")
OPTIONAL_KEYS: Final = ("label", "model", "upload_delay_s", "start_after_s", "architecture", "chunk_mb")
RING_KEYS: Final = ("reduce_step_s",)
NOT_FOR: Final = {Architecture.PS: RING_KEYS, Architecture.RING: ("ps_step_s",)}
"""Keys that do not apply to a job of this architecture."""
LEAST_WEIGHT: Final = 1e-6
WORTH: Final = {
    Objective.WELFARE: "utility",
    Objective.WEIGHTED_COMPLETION: "weight",
    Objective.COMPLETION: "weight",
}
"""Key that states what completion is worth, by the objective of the policy in force."""
DEFAULTS: Final[Mapping[Objective, Json]] = {Objective.COMPLETION: {"weight": 1}}
"""Default values by objective: the weight, where it is displayed but not used."""

UTILITY_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "constant": (),
    "step": ("deadline_s",),
    "linear": ("zero_at_s",),
    "inverse": ("zero_at_s",),
    "sigmoid": ("steepness_per_s", "midpoint_s"),
    "piecewise_linear": ("points",),
}
"""Fields of each form, in addition to `form` and `value`."""

CORE_NAMES: Final = {
    "v": "value",
    "c": "value",
    "a": "value",
    "g1": "value",
    "b": "zero_at_s",
    "T": "zero_at_s",
    "g2": "steepness_per_s",
    "g3": "midpoint_s",
    "deadline": "deadline_s",
}
"""Names that a body uses for the fields of the core's utilities."""


def resolve(body: Json, cluster: Cluster, snapshot: InventorySnapshot, policy: type[Any] | None = None) -> Json:
    """Return the body with its model's profile filled in; raises InvalidField naming the wrong fields.

    `policy` is the policy class in force, if the caller knows it already.
    """
    profile = _profile(body, cluster)
    policy = policy_in_force(cluster) if policy is None else policy
    architecture = _architecture(body.get("architecture", Architecture.PS.value), policy)
    worth = _worth(body, policy)
    keys = [key for key in (*PROFILE_KEYS, *RING_KEYS) if key not in NOT_FOR[architecture]]
    for key in NOT_FOR[architecture]:
        if key in body:
            raise InvalidField(key, f"says nothing about a job of architecture {architecture}; leave it out")
    defaults = DEFAULTS.get(policy.objective, {})
    required = [key for key in ("epochs", worth) if key not in defaults]
    check_object("", body, required=required, optional=[*OPTIONAL_KEYS, *keys, worth])
    label = body.get("label", "")
    if not isinstance(label, str) or len(label) > LARGEST_LABEL:
        raise InvalidField("label", f"expected a string of at most {LARGEST_LABEL} characters")
    full = {**profile, "start_after_s": 0, "upload_delay_s": {}, **dict.fromkeys(RING_KEYS, 0), **defaults, **body}
    missing = [
        InvalidField(key, "missing; give it, or a model whose profile has it") for key in keys if key not in full
    ]
    if missing:
        raise _one_error(missing)
    checks = _checks(full, snapshot)
    wanted = [*COUNTS, *(key for key in keys if key not in COUNTS), "upload_delay_s", "start_after_s", worth]
    wanted += [key for key in ("chunk_mb",) if key in body]
    return {"architecture": str(architecture), **_checked({key: checks[key] for key in wanted})}


def policy_in_force(cluster: Cluster) -> type[Any]:
    """Return the policy class that the cluster's market decides by; it defines which keys a bid has."""
    name = PolicyVersion.objects.filter(market__cluster=cluster).order_by("-number").values_list("name", flat=True)
    return POLICIES[name[0]]


def _architecture(value: object, policy: type[Any]) -> Architecture:
    known = sorted(policy.architectures)
    if not isinstance(value, str) or value not in known:
        raise InvalidField("architecture", f"this cluster runs {' or '.join(known)} ({policy.title})")
    return Architecture(value)


def _worth(body: Json, policy: type[Any]) -> str:
    """Return the key that states what completion is worth; raises InvalidField if the other key is present."""
    mine = WORTH[policy.objective]
    for key in sorted(set(WORTH.values())):
        if key != mine and key in body:
            raise InvalidField(key, f"this cluster takes a {mine} instead ({policy.title})")
    return mine


def _checks(full: Json, snapshot: InventorySnapshot) -> dict[str, Callable[[], Any]]:
    """Return the check of each key of a body."""
    workers, pss = ([m.name for m in machines] for machines in (snapshot.inventory.workers, snapshot.inventory.pss))
    return {
        **{key: partial(_count, key, full) for key in COUNTS},
        "gradient_mb": lambda: _number("gradient_mb", full["gradient_mb"], LARGEST_MB),
        "worker_step_s": lambda: _by_name("worker_step_s", full, workers, least=1),
        "ps_step_s": lambda: _by_name("ps_step_s", full, pss, least=1),
        "reduce_step_s": lambda: _number("reduce_step_s", full["reduce_step_s"], LARGEST_SECONDS),
        "upload_delay_s": lambda: _by_name("upload_delay_s", full, snapshot.inventory.servers),
        "start_after_s": lambda: _number("start_after_s", full["start_after_s"], LARGEST_SECONDS),
        "chunk_mb": lambda: _number("chunk_mb", full["chunk_mb"], LARGEST_MB),
        "utility": lambda: _check_utility(full["utility"], snapshot.slot_seconds),
        "weight": lambda: _check_weight(full["weight"]),
    }


def _checked(checks: dict[str, Callable[[], Any]]) -> Json:
    """Return the result of each check, by key; raises one error that names all wrong fields."""
    done: Json = {}
    wrong: list[InvalidField] = []
    for key, check in checks.items():
        try:
            done[key] = check()
        except InvalidField as error:
            wrong.append(error)
    if wrong:
        raise _one_error(wrong)
    return done


def _one_error(errors: Sequence[InvalidField]) -> InvalidField:
    """Return one error that names all wrong fields."""
    first, *others = errors
    first.also = tuple(others)
    return first


def check_finite(value: object, field: str) -> None:
    """Raise InvalidField, naming the field, if a document contains NaN or infinity: JSON has neither."""
    if isinstance(value, float) and not isfinite(value):
        raise InvalidField(field, f"expected a finite number, got {value}")
    if isinstance(value, dict):
        for key, part in value.items():
            check_finite(part, f"{field}.{key}" if field else str(key))
    elif isinstance(value, list):
        for i, part in enumerate(value):
            check_finite(part, f"{field}[{i}]")


def core_bid(offer: Json, snapshot: InventorySnapshot, *, bid_id: str, arrival: int) -> Bid:
    """Return a resolved body as the core's bid, in slots, for one inventory.

    A machine type without a step time in the offer gets one that is longer than the horizon. A server without an
    upload delay in the offer has its own default delay. A ring has no step times of parameter servers.
    """
    slot_s, inventory = snapshot.slot_seconds, snapshot.inventory
    never = Fraction(snapshot.horizon + 1)
    steps = {
        key: tuple(
            units.slots(offer[key][machine.name], slot_s) if machine.name in offer.get(key, {}) else never
            for machine in machines
        )
        for key, machines in (("worker_step_s", inventory.workers), ("ps_step_s", inventory.pss))
    }
    after = offer["start_after_s"]
    delays = offer["upload_delay_s"]
    return Bid(
        id=bid_id,
        arrival=arrival,
        epochs=offer["epochs"],
        chunks=offer["chunks"],
        minibatches=offer["minibatches"],
        worker_time=steps["worker_step_s"],
        ps_time=steps["ps_step_s"],
        transfer_time=tuple(
            units.transfer_slots(offer["gradient_mb"], machine.bandwidth_mbps, slot_s) for machine in inventory.workers
        ),
        delay=tuple(
            units.slots_up(max(after, delays.get(name, default)), slot_s)
            for name, default in zip(inventory.servers, snapshot.delays_s, strict=True)
        ),
        utility=utility_from_json(_core_worth(offer, slot_s)),
        # Offers stored before rings and storage were introduced have none of these keys.
        architecture=Architecture(offer.get("architecture", Architecture.PS)),
        reduce_time=units.slots(offer.get("reduce_step_s", 0), slot_s),
        chunk_size=units.bytes_up(offer.get("chunk_mb", 0)),
    )


def _profile(body: Json, cluster: Cluster) -> Json:
    """Return the named model's profile as keys of a body; empty without a model."""
    if not isinstance(body, dict):
        raise InvalidField("body", "expected an object")
    name = body.get("model")
    if name is None:
        if "model" in body:
            raise InvalidField("model", "expected a string, got null")
        return {}
    profile = ModelProfile.objects.filter(cluster=cluster, name=name).first() if isinstance(name, str) else None
    if profile is None:
        known = ModelProfile.objects.filter(cluster=cluster).values_list("name", flat=True)
        raise InvalidField("model", f"this cluster has no such model; it has {', '.join(known) or 'none'}")
    steps: dict[str, dict[str, float]] = {MachineRole.WORKER: {}, MachineRole.PS: {}}
    for role, machine, seconds in profile.step_times.values_list("machine_type__role", "machine_type__name", "seconds"):
        steps[role][machine] = seconds
    return {
        "chunks": profile.chunks,
        "minibatches": profile.minibatches,
        "gradient_mb": profile.gradient_mb,
        "worker_step_s": steps[MachineRole.WORKER],
        "ps_step_s": steps[MachineRole.PS],
    }


def _count(key: str, body: Json) -> int:
    return check_integer(key, body[key], low=1, high=COUNTS[key])


def _number(field: str, value: object, high: float, low: float = 0.0) -> float:
    if isinstance(value, str):
        raise InvalidField(field, "expected a number, got a text")
    return check_number(field, value, low=low, high=high)


def _by_name(field: str, body: Json, known: Iterable[str], *, least: int = 0) -> dict[str, float]:
    value, names = body[field], list(known)
    if not isinstance(value, dict) or len(value) < least:
        raise InvalidField(field, "expected an object with seconds by name" + (", at least one" if least else ""))
    for name in value:
        if name not in names:
            raise InvalidField(
                f"{field}.{str(name)[:60]}", f"this cluster has none of that name; it has {_some(names)}"
            )
    return {name: _number(f"{field}.{name}", seconds, LARGEST_SECONDS) for name, seconds in value.items()}


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _check_weight(value: object) -> float:
    # Prices are scaled by the least weight per unit. A far smaller weight would leave no precision for other bids.
    return _number("weight", value, LARGEST_MONEY, low=LEAST_WEIGHT)


def _check_utility(value: object, slot_s: int) -> Json:
    form = value.get("form") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(form, str) or form not in UTILITY_FIELDS:
        known = ", ".join(sorted(UTILITY_FIELDS))
        raise InvalidField(
            "utility.form" if isinstance(value, dict) else "utility", f"expected an object with a form: {known}"
        )
    check_object("utility", value, required=["form", "value", *UTILITY_FIELDS[form]])
    checked: Json = {"form": form}
    checked["value"] = _number("utility.value", value["value"], LARGEST_MONEY)
    for key in UTILITY_FIELDS[form]:
        where = f"utility.{key}"
        if key == "points":
            checked[key] = [_point(f"{where}[{i}]", row) for i, row in enumerate(check_list(where, value[key]))]
        else:
            least = SMALLEST_ZERO_S if key == "zero_at_s" else 0.0
            checked[key] = _number(where, value[key], LARGEST_SECONDS, low=least)
    try:
        # The core checks the remaining rules, such as points that rise, on the curve that it will use.
        utility_from_json(_core_utility(checked, slot_s))
    except InvalidField as error:
        _, _, field = error.field.partition(".")
        problem = error.problem
        if isinstance(error, OutOfRange):  # the core's message is in its own units, which the user did not enter
            problem = f"out of range together with the other fields of this utility and slots of {slot_s} s"
        raise InvalidField(f"utility.{CORE_NAMES.get(field, field)}", problem) from None
    return checked


def _point(where: str, row: object) -> list[float]:
    elapsed, fraction = check_list(where, row, length=2)
    return [_number(f"{where}[0]", elapsed, LARGEST_SECONDS), _number(f"{where}[1]", fraction, 1.0)]


def _core_worth(offer: Json, slot_s: int) -> Json:
    """Return the core's utility. A weight becomes a constant: the policy, not the utility, prefers early completion."""
    if "weight" in offer:
        return {"type": "constant", "v": offer["weight"]}
    return _core_utility(offer["utility"], slot_s)


def _core_utility(document: Json, slot_s: int) -> Json:
    """Return the core's utility, in slots after arrival."""
    value = document["value"]
    match document["form"]:
        case "step":
            return {"type": "step", "v": value, "deadline": document["deadline_s"] / slot_s}
        case "linear":
            # value x (1 - t / zero_at) = value - (value / zero_at) t
            return {"type": "linear", "c": value, "b": value / (document["zero_at_s"] / slot_s)}
        case "inverse":
            # value x (zero_at / t - 1) = value x 1 x (zero_at - t) / t
            return {"type": "inverse", "a": value, "work": 1.0, "T": document["zero_at_s"] / slot_s}
        case "sigmoid":
            steepness, midpoint = document["steepness_per_s"] * slot_s, document["midpoint_s"] / slot_s
            return {"type": "sigmoid", "g1": value, "g2": steepness, "g3": midpoint}
        case "piecewise_linear":
            points = [[elapsed / slot_s, fraction] for elapsed, fraction in document["points"]]
            return {"type": "piecewise_linear", "value": value, "points": points}
    return {"type": "constant", "v": value}
