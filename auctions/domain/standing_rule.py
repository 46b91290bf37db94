"""The rules by which rejected bids of live markets are tried again."""

from typing import Final

from scheduling.policies.base import Policy
from scheduling.policies.standing import StandingRule, rule_for

RULE: Final = StandingRule()
"""The rule of a market whose events state none. `longest` and `each` are equal under all policies."""


def rule_under(policy: Policy, recorded: StandingRule) -> StandingRule:
    """Return the rule of a policy that decides instead of a recorded one, whose turns had the rule `recorded`."""
    own = rule_for(policy)
    return recorded if recorded.at_ends == own.at_ends else own
