"""Filters and tags for money, slots and states."""

import json
import re

from django import template
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User

from accounts import rights
from auctions.domain.money import Money
from auctions.domain.money import money_of as money_of_bid
from auctions.kernels import warming
from auctions.models import Bid, BidState, Market
from auctions.readings.explanations import Explained, explanation
from cluster import operators
from execution import programs
from execution.models import Program
from frontend.figures.timeline import TimeLine
from frontend.presenters.states import COUNTERFACTUAL_LOOKS, LOOKS, PLAN_LOOKS, RUN_LOOKS, Look, look_of
from scheduling.registry import POLICIES
from studies.background.models import JobState
from studies.models import Counterfactual, Plan
from web.numbers import money, percent, weight

register = template.Library()


@register.filter
def is_operator(user: User | AnonymousUser) -> bool:
    """Return whether a page may show data for operators."""
    return operators.is_operator(user)


@register.simple_tag
def password_logins() -> bool:
    """Return whether users may log in with passwords, and change them."""
    return settings.PASSWORD_LOGINS


@register.simple_tag
def single_sign_on() -> str:
    """Return the name of the provider of single sign-on; empty if it is off."""
    return settings.OIDC_NAME if settings.OIDC_ISSUER else ""


@register.filter
def operates(user: User | AnonymousUser, market: Market) -> bool:
    """Return whether a page of a market may show data for its operators."""
    return rights.operates(user, market.cluster)


@register.filter
def may_close(user: User, program: Program) -> bool:
    """Return whether a page may offer to close a program."""
    return programs.may_close(program, user)


@register.filter
def compiling(market: Market) -> str:
    """Return what a market waits for before it decides; empty if it does not wait."""
    return warming.words(market.pk)


register.filter(money)
register.filter(percent)
register.filter(weight)


@register.filter
def money_of(bid: Bid) -> Money | None:
    """Return the value, payment and payoff of a bid; None if it was not admitted."""
    return money_of_bid(bid)


@register.filter
def look(bid: Bid) -> Look:
    """Return the label and style of a bid's state."""
    return look_of(bid)


@register.filter
def plan_look(plan: Plan) -> Look:
    """Return the label and style of a plan's state."""
    return PLAN_LOOKS[JobState(plan.state)]


@register.filter
def counterfactual_look(counterfactual: Counterfactual) -> Look:
    """Return the label and style of a counterfactual's state."""
    return COUNTERFACTUAL_LOOKS[JobState(counterfactual.state)]


@register.filter
def state_look(state: str) -> Look:
    """Return the label and style of a bid's state in a counterfactual."""
    return LOOKS[BidState(state)]


@register.filter
def work_look(state: str) -> Look:
    """Return the label and style of the state of an experiment or a run."""
    return RUN_LOOKS[JobState(state)]


@register.filter
def title_of(policy: str) -> str:
    """Return the title of a policy."""
    return str(POLICIES[policy].title)


@register.filter
def as_json(document: object) -> str:
    """Return a document as a request by REST can state it."""
    return json.dumps(document, indent=2, ensure_ascii=False)


@register.filter
def with_times(words: str, line: TimeLine) -> str:
    """Return an explanation of the core with the date and time of each slot in it."""
    return re.sub(r"\bslot (\d+)", lambda found: f"{found[0]} ({line.time_words(int(found[1]))})", words)


@register.simple_tag
def explained(decision: Explained, offered: float | None) -> str:
    """Return the explanation of a decision on a bid that offered this value, with amounts as elsewhere on pages."""
    return explanation(decision, offered or None)


@register.filter
def at_slot(line: TimeLine, slot: int | None) -> str:
    """Return date, time and slot; a dash for None."""
    # No line break inside the brackets.
    return "–" if slot is None else line.words(slot).replace("(slot ", "(slot\u00a0")
