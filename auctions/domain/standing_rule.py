"""The rules by which rejected bids of live markets are tried again."""

from typing import Final

from scheduling.policies.base import Policy
from scheduling.policies.standing import StandingRule, rule_for
from scheduling.registry import POLICIES

RULE: Final = StandingRule()
"""The rule of a market whose events state none. `each` is equal under all policies."""


def longest_stand(name: str) -> float:
    """Return the longest time that a bid stands after its arrival under the policy of this name, in horizons."""
    return rule_for(POLICIES[name]).longest


def rule_under(policy: Policy, recorded: StandingRule) -> StandingRule:
    """Return the rule of a policy that decides instead of a recorded one, whose turns had the rule `recorded`."""
    own = rule_for(policy)
    return recorded if recorded.at_ends == own.at_ends else own
