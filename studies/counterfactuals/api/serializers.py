"""OpenAPI schemas of counterfactuals."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from rest_framework import serializers

from auctions.models import BidState
from scheduling.model.validation import LARGEST_INTEGER
from scheduling.registry import POLICIES
from studies.background.models import JobState
from studies.background.shapes import place_field, stage_field
from web.schema import Schema, named


def _count(text: str, *, null: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(min_value=0, allow_null=null, help_text=text)


def _number(text: str, *, null: bool = False) -> serializers.FloatField:
    return serializers.FloatField(allow_null=null, help_text=text)


def _slot(text: str) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, help_text=f"{text}, slot number; null where there is none.")


class CounterfactualIn(Schema):
    policy = serializers.ChoiceField(list(POLICIES), help_text="The policy that decides instead.")
    parameters = serializers.DictField(
        required=False, help_text="Of the policy, by name; its defaults where not given."
    )
    since = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=LARGEST_INTEGER,
        help_text="Number of the first bid that it decides, from the state before it; 1 if not given.",
    )


class CounterfactualTotalsOut(Schema):
    submitted = _count("Bids, the sum of the next eight.")
    done, rejected = _count("Complete."), _count("Turned away.")
    running, waiting = _count("Began, and not complete."), _count("Admitted, and did not begin.")
    ended, withdrawn = _count("Cancelled, or failed."), _count("Taken back before they were decided.")
    quarantined = _count("The policy failed on them.")
    undecided = _count("Still in the queue.")
    welfare = _number("Worth of what is complete or still to be, money.")
    revenue = _number("Payments, also of jobs that ended early.")
    payoff = _number("welfare - revenue.")
    admitted = _count("Bids that were admitted.")
    acceptance = _number("Admitted over decided; null where nothing was decided.", null=True)
    jct_slots = _number("Mean of completion - arrival, slots; null where nothing has a completion.", null=True)
    common_jct_slots = _number("The same of jobs that have a completion in both tellings.", null=True)


class CounterfactualBothOut(Schema):
    recorded = CounterfactualTotalsOut(help_text="As it was.")
    other = CounterfactualTotalsOut(help_text="As it would have been.")


class CounterfactualRow(Schema):
    id = serializers.IntegerField(help_text="Names it in addresses.")
    state = serializers.ChoiceField(JobState.choices, help_text="queued and running change, the others are final.")
    stage = stage_field()
    policy = serializers.CharField(help_text="That decides instead.")
    parameters = serializers.DictField(help_text="Of the policy, every one.")
    since = _count("Number of the first bid that it decides.")
    version = _count("Of the market, up to which its record is told.")
    replayed = _count("Events replayed so far.")
    events = _count("That are to be told; null before that is known.", null=True)
    decided = _count("Decisions that were made again.", null=True)
    changed = _count("How many of them came out otherwise.", null=True)
    owner = serializers.CharField(help_text="Who asked.")
    error = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    submitted_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")
    started_at = serializers.DateTimeField(allow_null=True, help_text="Wall clock, ISO 8601.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Wall clock, ISO 8601.")
    duration_s = _number("Seconds from start to end.", null=True)


class CounterfactualOut(CounterfactualRow):
    place = place_field()
    note = named(serializers.CharField(allow_blank=True, help_text="The cluster's; says when values are synthetic."))
    earlier_changed = _count("Jobs decided before `since` that would have run otherwise.", null=True)
    failed_plans = _count("How many times the policy failed to plan: jobs then kept what they held.", null=True)
    totals = CounterfactualBothOut(allow_null=True, help_text="Both tellings; null before it is done.")


class CounterfactualPage(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page.")
    previous = serializers.CharField(allow_null=True, help_text="Address of the page before.")
    results = CounterfactualRow(many=True, help_text="Newest first.")


class CounterfactualSideOut(Schema):
    state = serializers.ChoiceField(BidState.choices, help_text="IdempotencyKey the last slot of the record had begun.")
    admitted = serializers.BooleanField(allow_null=True, help_text="null: not decided.")
    start, completion = _slot("First slot in which it runs"), _slot("Complete when this begins")
    payment, worth = _number("Money."), _number("Of that completion, by the bid's own utility; 0 if it ended early.")
    payoff = _number("worth - payment + refund.")
    refund = _number("Paid back when it failed, money.")
    reason = serializers.CharField(
        allow_blank=True, help_text="Of a rejection: as in receipts, or refused (it could not have been submitted)."
    )
    explanation = serializers.CharField(allow_blank=True, help_text="One or two sentences.")


class CounterfactualBidOut(Schema):
    sequence = _count("The bid's place in the queue.")
    label = named(serializers.CharField(allow_blank=True, help_text="Its owner's name for it."))
    owner = serializers.CharField(help_text="Who sent it.")
    arrival = serializers.IntegerField(help_text="Slot number.")
    recorded = CounterfactualSideOut(help_text="What became of it.")
    other = CounterfactualSideOut(help_text="What would have become of it.")
    changed = serializers.BooleanField(help_text="Whether admission, state, start, completion or payment differ.")


class CounterfactualBids(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page.")
    results = CounterfactualBidOut(many=True, help_text="By number.")


class StatementOut(Schema):
    factor = _number("Times the truth.")
    stated = _number("The value or weight that is stated; or the time, seconds after submission.")
    admitted = serializers.BooleanField(help_text="What the policy would have answered.")
    start, completion = _slot("First slot in which it would run"), _slot("Complete when this begins")
    payment = _number("Money.")
    worth = _number("Of that completion, in truth; null when admitted without a completion yet.", null=True)
    payoff = _number("worth - payment.", null=True)


class AlternativesOut(Schema):
    policy = serializers.CharField(help_text="That decided the bid.")
    truthful = serializers.BooleanField(help_text="Whether it promises that nothing brings more than the truth.")
    slot = serializers.IntegerField(help_text="In which it decided, slot number.")
    value = _number("In truth: money, or the weight.")
    time_s = _number(
        "In truth, seconds after submission: the deadline, when the bid is worth nothing any more, the midpoint or "
        "the last point; null where its worth states none.",
        null=True,
    )
    by_value = StatementOut(many=True, help_text="Stating 0 to 3 times the value.")
    by_time = StatementOut(many=True, help_text="Stating 0.1 to 3 times the time; empty without one.")
