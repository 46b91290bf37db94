"""The one list of policies. A new policy is one module and one line here."""

from collections.abc import Callable, Mapping

from scheduling.arrays import Json
from scheduling.dps import Dps
from scheduling.errors import UnknownPolicy
from scheduling.policy import Policy

POLICIES: Mapping[str, Callable[..., Policy]] = {
    "dps": Dps,
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
        policy = POLICIES[name]
    except KeyError:
        raise UnknownPolicy(name, POLICIES) from None
    return policy(**parameters)
