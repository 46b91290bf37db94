"""The one list of policies. `docs/developers/add-a-policy.md` says what a new one needs."""

from collections.abc import Mapping
from typing import Any

from scheduling.model.errors import InvalidField, UnknownPolicy, refuse_all
from scheduling.model.parameters import parameters_of
from scheduling.model.types import Json
from scheduling.model.validation import shown
from scheduling.policies.base import Policy
from scheduling.policies.baselines.antman import AntMan
from scheduling.policies.baselines.batch_sche import BatchSche
from scheduling.policies.baselines.dorm import Dorm
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.baselines.rrh import Rrh
from scheduling.policies.baselines.srtf import Srtf
from scheduling.policies.baselines.tiresias import Tiresias
from scheduling.policies.baselines.tiresias_l import TiresiasL
from scheduling.policies.competition import Competition
from scheduling.policies.completions import Completions
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.policies.preemptive import Preemptive
from scheduling.policies.weighted_completion import WeightedCompletion


class _Policies(dict[str, type[Any]]):
    """Policies by their names. Records may name one that a former version had; the error lists those of this one."""

    def __missing__(self, name: str) -> type[Any]:
        raise UnknownPolicy(name, self)


POLICIES: Mapping[str, type[Any]] = _Policies(
    {
        "dps": Dps,
        "oasis": Oasis,
        "completions": Completions,
        "competition": Competition,
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
)


def make_policy(name: str, parameters: Json) -> Policy:
    """Build a policy from its name and parameters; parameters that are not given have their defaults.

    Parameters
    ----------
    name
        Name in `POLICIES`.
    parameters
        Values by the names of the parameters, as JSON gives them. Numbers are checked strictly: `"0.5"` is no number.

    Raises
    ------
    UnknownPolicy
        If no policy has that name; the message lists those that exist.
    InvalidField
        If parameters are unknown or out of range; it names them all.

    Examples
    --------
    >>> from scheduling.registry import make_policy
    >>> make_policy("dps", {"price": "paper"}).to_json()["price"]
    'paper'
    >>> make_policy("dps", {"price": "free"})
    Traceback (most recent call last):
    ...
    scheduling.model.errors.InvalidField: price: expected one of quantile, fluid, paper, got 'free'
    """
    kind = POLICIES[name]
    if not isinstance(parameters, dict):
        raise InvalidField("parameters", f"expected an object, got {shown(parameters)}")
    known = parameters_of(kind)
    names = ", ".join(sorted(known))
    wrong = [
        InvalidField(str(key), f"unknown parameter of {name}; known: {names}") for key in parameters if key not in known
    ]
    try:
        policy: Policy = kind(**{known[key].name: value for key, value in parameters.items() if key in known})
    except InvalidField as error:
        wrong += error.all_wrong
    refuse_all(wrong)
    return policy


def recorded_policy(name: str, parameters: Json) -> Policy:
    """Build a policy from a record of all its parameters.

    A parameter that did not exist when the record was made has the value at which policies decided then, which may
    differ from its default. Raises as `make_policy` does.
    """
    known = parameters_of(POLICIES[name]) if name in POLICIES else {}
    before = {key: one.metadata["absent"] for key, one in known.items() if "absent" in one.metadata}
    return make_policy(name, {**before, **parameters})
