"""REST shapes of answers about counterfactuals and other statements of bids."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any

from rest_framework import serializers

from auctions.models import BidState
from studies.background.shapes import JobRow, Place
from studies.job_tables import COUNTERFACTUALS
from web.pagination import Page
from web.schema import Schema, named


def _count(text: str, *, null: bool = False, **more: Any) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, allow_null=null, help_text=text, **more)


def _number(text: str, *, null: bool = False) -> serializers.FloatField:
    return serializers.FloatField(allow_null=null, help_text=text)


def _slot(text: str) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, help_text=f"{text}, slot number; null if there is none.")


class TotalsOut(Schema):
    submitted = _count("Bids, the sum of the next nine.")
    completed, rejected = _count("Jobs that are complete."), _count("Bids that were rejected.")
    standing = _count("Rejected bids that are tried again.")
    running, planned = _count("Jobs that began and are not complete."), _count("Admitted jobs that did not begin.")
    ended, withdrawn = _count("Jobs that were cancelled or failed."), _count("Bids that were withdrawn.")
    quarantined = _count("Bids on which the policy failed.")
    undecided = _count("Bids still in the queue.")
    welfare = _number("Value of jobs that are complete or will be, money.")
    revenue = _number("Payments less refunds, also of jobs that ended early.")
    payoff = _number("welfare - revenue.")
    admitted = _count("Bids that were admitted.")
    acceptance = _number("Admitted over decided; null if nothing was decided.", null=True)
    mean_jct_slots = _number("Mean of completion - arrival, slots; null if nothing has a completion.", null=True)
    common_mean_jct_slots = _number("The same for jobs that have a completion on both sides.", null=True)


class BothTotalsOut(Schema):
    recorded = TotalsOut(help_text="As recorded.")
    other = TotalsOut(help_text="Under the other policy.")


class CounterfactualRow(JobRow):
    policy = serializers.CharField(help_text="The policy that decides instead.")
    parameters = serializers.DictField(help_text="All its parameters.")
    since = _count("Number of the first bid that it decides.")
    version = _count("Version of the market up to which its record is replayed.")
    replayed = _count("Events replayed so far.")
    events = _count("Events to be replayed; null before that is known.", null=True)
    decided = _count("Recorded decisions that the policy replaces.", null=True)
    changed = _count("How many of these bids come out differently.", null=True)


class CounterfactualOut(CounterfactualRow):
    place = Place(COUNTERFACTUALS)
    note = named(
        serializers.CharField(
            source="market.cluster.note",
            allow_blank=True,
            help_text="Note of the cluster, such as on synthetic values.",
        )
    )
    earlier_changed = _count(
        "Jobs decided before `since` that would have run differently.", null=True, source="result.earlier_changed"
    )
    failed_plans = _count(
        "How often the policy failed to plan: jobs then kept what they held.", null=True, source="result.failed_plans"
    )
    totals = BothTotalsOut(source="result", allow_null=True, help_text="Totals of both sides; null before the end.")


class CounterfactualPage(Page):
    results = CounterfactualRow(many=True, help_text="Newest first.")


class SideOut(Schema):
    state = serializers.ChoiceField(BidState.choices, help_text="State once the last slot of the record had begun.")
    admitted = serializers.BooleanField(allow_null=True, help_text="null: not decided.")
    start, completion = _slot("First slot in which it runs"), _slot("First slot after its completion")
    payment, value = _number("Money."), _number("Value of that completion to the bidder; 0 if the job ended early.")
    payoff = _number("value - payment + refund.")
    refund = _number("Money that is paid back when the job fails.")
    reason = serializers.CharField(
        allow_blank=True, help_text="Reason of a rejection, as in receipts; refused: it could not have been submitted."
    )
    explanation = serializers.CharField(allow_blank=True, help_text="The decision in one or two sentences.")


class ComparedBidOut(Schema):
    sequence = _count("The bid's place in the queue.")
    label = named(serializers.CharField(allow_blank=True, help_text="Its owner's name for it."))
    owner = serializers.CharField(help_text="User who submitted it.")
    arrival = serializers.IntegerField(help_text="Slot of arrival.")
    recorded = SideOut(help_text="As recorded.")
    other = SideOut(help_text="Under the other policy.")
    changed = serializers.BooleanField(help_text="Whether admission, state, start, completion or payment differ.")


class ComparedBids(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page.")
    results = ComparedBidOut(many=True, help_text="By number.")


class Seconds(serializers.FloatField):
    """A time in slots as seconds, by `slot_s` of the context."""

    def to_representation(self, value: Any) -> Any:
        """Return the time in seconds."""
        return super().to_representation(value * self.context["slot_s"])


class StatementOut(Schema):
    factor = _number("Stated over true.")
    stated = _number("The value or weight that is stated.")
    admitted = serializers.BooleanField(help_text="Whether the policy would have admitted the bid.")
    start, completion = _slot("First slot in which it would run"), _slot("First slot after its completion")
    payment = _number("Money.")
    value = _number("True value of that completion; null if admitted without a completion yet.", null=True)
    payoff = _number("value - payment.", null=True)


class TimeStatementOut(StatementOut):
    stated = Seconds(help_text="The time that is stated, seconds after arrival.")


class AlternativesOut(Schema):
    policy = serializers.CharField(source="policy.name", help_text="The policy that decided the bid.")
    truthful = serializers.BooleanField(help_text="Whether the policy guarantees that the truth has the most payoff.")
    slot = serializers.IntegerField(help_text="Slot of the decision.")
    value = serializers.FloatField(source="amplitude", help_text="True value, money; or the true weight.")
    time_s = Seconds(
        source="time",
        allow_null=True,
        help_text="True time, seconds after arrival: the deadline, the end of all value, the midpoint or the last"
        " point; null if the utility has none.",
    )
    by_value = StatementOut(many=True, help_text="Stating 0 to 3 times the value.")
    by_time = TimeStatementOut(many=True, help_text="Stating 0.1 to 3 times the time; empty without one.")
