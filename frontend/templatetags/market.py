"""Money, slots and states in words."""

import re

from django import template
from django.contrib.auth.models import AnonymousUser, User

from auctions.domain.money import Money
from auctions.domain.money import money_of as money_of_bid
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from cluster import operators
from frontend.figures.timeline import TimeLine
from frontend.presenters.numbers import money, percent
from frontend.presenters.states import COUNTERFACTUAL_LOOKS, LOOKS, PLAN_LOOKS, RUN_LOOKS, Look, look_of
from scheduling.registry import POLICIES
from studies.background.models import JobState
from studies.models import Counterfactual, Plan

register = template.Library()


@register.filter
def is_operator(user: User | AnonymousUser) -> bool:
    """Whether a page may show what is for operators."""
    return operators.is_operator(user)


@register.filter
def compiling(market: Market) -> str:
    """What a market waits for before it decides, in words; empty where it waits for nothing."""
    return warming.words(market.pk)


register.filter(money)
register.filter(percent)


@register.filter
def money_of(bid: Bid) -> Money | None:
    """What a bid comes to; None where it was not admitted."""
    return money_of_bid(bid)


@register.filter
def look(bid: Bid) -> Look:
    """How a bid's state is shown."""
    return look_of(bid)


@register.filter
def plan_look(plan: Plan) -> Look:
    """How a plan's state is shown."""
    return PLAN_LOOKS[JobState(plan.state)]


@register.filter
def counterfactual_look(counterfactual: Counterfactual) -> Look:
    """Return the label and style of a counterfactual's state."""
    return COUNTERFACTUAL_LOOKS[JobState(counterfactual.state)]


@register.filter
def state_look(state: str) -> Look:
    """How a state that a bid would have is shown."""
    return LOOKS[BidState(state)]


@register.filter
def work_look(state: str) -> Look:
    """How the state of an experiment or a run is shown."""
    return RUN_LOOKS[JobState(state)]


@register.filter
def title_of(policy: str) -> str:
    """What a policy is called for people."""
    return str(POLICIES[policy].title)


@register.filter
def with_times(words: str, line: TimeLine) -> str:
    """An explanation of the core, which knows slots only, with the time of each slot it names."""
    return re.sub(r"\bslot (\d+)", lambda found: f"{found[0]} ({line.time_words(int(found[1]))})", words)


@register.filter
def at_slot(line: TimeLine, slot: int | None) -> str:
    """Date, time and slot; a dash for none."""
    # The bracket stays in one piece where lines break.
    return "–" if slot is None else line.words(slot).replace("(slot ", "(slot\u00a0")
