"""The one list of policies. A new policy is one module and one line here."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from scheduling.arrays import Json
from scheduling.baselines.antman import AntMan
from scheduling.baselines.batch_sche import BatchSche
from scheduling.baselines.dorm import Dorm
from scheduling.baselines.drf import Drf
from scheduling.baselines.fifo import Fifo
from scheduling.baselines.rrh import Rrh
from scheduling.baselines.srtf import Srtf
from scheduling.baselines.tiresias import Tiresias
from scheduling.baselines.tiresias_l import TiresiasL
from scheduling.dps import Dps
from scheduling.errors import InvalidField, UnknownPolicy
from scheduling.fields import shown
from scheduling.oasis import Oasis
from scheduling.policy import Policy
from scheduling.preemptive.policy import Preemptive
from scheduling.weighted_completion import WeightedCompletion

POLICIES: Mapping[str, type[Any]] = {
    "dps": Dps,
    "oasis": Oasis,
    "weighted_completion": WeightedCompletion,
    "fifo": Fifo,
    "drf": Drf,
    "antman": AntMan,
    "tiresias": Tiresias,
    "preemptive": Preemptive,
    "srtf": Srtf,
    "tiresias_l": TiresiasL,
    "batch_sche": BatchSche,
    "rrh": Rrh,
    "dorm": Dorm,
}


def make_policy(name: str, parameters: Json) -> Policy:
    """Build a policy from its name and parameters.

    Raises
    ------
    UnknownPolicy
        If no policy has that name; the message lists those that exist.
    InvalidField
        If a parameter is unknown or out of range; the message names it.
    """
    try:
        kind = POLICIES[name]
    except KeyError:
        raise UnknownPolicy(name, POLICIES) from None
    if not isinstance(parameters, dict):
        raise InvalidField("parameters", f"expected an object, got {shown(parameters)}")
    known = {parameter.name for parameter in fields(kind)}
    for key in parameters:
        if key not in known:
            raise InvalidField(str(key), f"unknown parameter of {name}; known: {', '.join(sorted(known))}")
    policy: Policy = kind(**parameters)
    return policy
