"""The rule by which rejected bids of live markets are tried again."""

from typing import Final

from scheduling.policies.standing import StandingRule

RULE: Final = StandingRule()
"""Each turn records it, for replays after it has changed."""
