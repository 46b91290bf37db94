"""Shapes of responses about bids: each writes a row, and describes it in OpenAPI."""

# ruff: noqa: D101, D102 (shapes are named for what they describe, and their fields carry their texts)
from typing import Final

from rest_framework import serializers

from auctions.api.fields import ClusterName, SlotSeconds, money, number, slot_times, string, wall_time
from auctions.domain.money import money_of
from auctions.engine.standing_quote import StandingReading, standing_of
from auctions.engine.submission import Quote
from auctions.models import Bid, BidState
from auctions.readings.explanations import explanation
from auctions.readings.queues import Displacement
from auctions.readings.schedules import Receipt, ScheduleReading, granted, receipt_of
from web.pagination import Page
from web.writing import Answer

ROLES: Final = [("worker", "Worker"), ("ps", "Parameter server")]
STATES: Final = (
    "State of the bid. submitted: it waits for its decision; quarantined: the policy failed on it, and operators have"
    " been informed; they put it back in the queue, or it can be withdrawn; standing: it was rejected and is tried"
    " again when slots begin."
)

ARRIVAL: Final = "First slot in which the job could start; all times in the bid count from its beginning, the arrival"


class PlacementOut(Answer):
    server = string("Name of the server.")
    machine_type = string("Name of the machine type.")
    role = serializers.ChoiceField(ROLES, help_text="Whether they are workers or parameter servers.")
    count = number("Number of machines held.")
    start_slot, start_s, start_at = slot_times("start", "First slot in which they are held")
    end_slot, end_s, end_at = slot_times("end", "First slot in which they are no longer held")


class ChunksOut(Answer):
    server = string("Name of the server.")
    machine_type = string("Name of the worker's type.")
    worker = number(
        "Number of the worker on its server, from 1; null if each chunk has a worker of its own.", null=True
    )
    count = number("Number of data chunks in the queue; in a segment, number of workers side by side.")


class SegmentOut(ChunksOut):
    start_s = SlotSeconds(source="start", help_text="Start of the segment, seconds after the epoch of the cluster.")
    end_s = SlotSeconds(source="end", help_text="End of the segment, seconds after the epoch of the cluster.")


class SegmentsOut(Answer):
    results = SegmentOut(many=True, help_text="Segments in order of time; those after now are forecasts.")


class PreemptionOut(Answer):
    at_s = SlotSeconds(source="at", help_text="Time of the preemption, seconds after the epoch of the cluster.")
    server = string("Name of the server.")
    worker = number("Number of the worker on its server, from 1.")
    by = number("Number of the preempting bid; null if it is another user's.", null=True)

    @staticmethod
    def worker_of(row: Displacement) -> int:
        return row.worker + 1


class PreemptionsOut(Answer):
    results = PreemptionOut(many=True, help_text="Preemptions in order of time.")


class ScheduleOut(Answer):
    start_slot, start_s, start_at = slot_times("start", "Slot in which the job starts")
    completion_slot, completion_s, completion_at = slot_times(
        "completion", "Slot at whose start the job is complete; null while it is paused", null=True
    )
    placements = PlacementOut(
        many=True, help_text="Machines held, by place and time; an elastic job holds different machines in other slots."
    )
    chunks = ChunksOut(many=True, help_text="Queues that data chunks were sent to, under a policy that queues.")


class ChangeOut(Answer):
    version = number("Version of the market that made this plan.")
    at = wall_time("Time of the change")
    next_slot, next_s, next_at = slot_times("slot", "First slot that could still be sold at that time")
    start_slot, start_s, start_at = slot_times("start", "Slot of the planned start; null while in line", null=True)
    completion_slot, completion_s, completion_at = slot_times(
        "completion", "Slot of the planned completion; null without one", null=True
    )


class ChangesOut(Answer):
    results = ChangeOut(
        many=True, help_text="Plans, oldest first. Only where schedules are plans; a promise has only the first."
    )


class MachinesRow(Answer):
    start_slot, start_s, start_at = slot_times("slot", "Slot in which the machines are held")
    workers = number("Number of workers held.")
    num_ps = number("Number of parameter servers held.")


class MachinesOut(Answer):
    results = MachinesRow(many=True, help_text="One row for each slot in which anything is held, in order.")


class CounterOfferOut(Answer):
    least_value = money("Value of the utility at which, with a cent added, the bid would have been admitted")
    latest_start_slot, latest_start_s, latest_start_at = slot_times(
        "latest_start", "Latest start at that value; what is granted may start sooner"
    )
    completion_slot, completion_s, completion_at = slot_times(
        "completion", "Slot of the completion after that latest start; what is granted may be complete sooner or later"
    )


class _DecisionOut(Answer):
    admitted = serializers.BooleanField(source="decision.admitted", help_text="Whether the bid is admitted.")
    ledger_version = number("Version of the ledger that the decision was made against.")
    slot = number("First slot that could still be sold, slot number.", source="decision.slot")
    value = money("Value at the granted or promised completion; 0 if rejected", source="decision.value")
    payment = money(
        "Posted price of what is held; where bids compete, what its start takes from others; 0 where nobody pays",
        source="decision.payment",
    )
    payoff = money("Value less payment", source="decision.payoff")
    reason = string(
        "Reason of a rejection: price, no_room, impossible, worthless, expired, refused or over_budget.", null=True
    )
    explanation = string("The decision in words.")
    schedule = ScheduleOut(allow_null=True, help_text="The schedule; null if rejected, or without a planned start.")
    promised_slot, promised_s, promised_at = slot_times(
        "decision.due", "Promised completion; null if rejected, or if the machines are what is promised", null=True
    )
    counter_offer = CounterOfferOut(
        source="decision.counter", allow_null=True, help_text="The least value that would have been admitted."
    )
    prices = serializers.DictField(
        source="decision.prices",
        child=serializers.JSONField(),
        help_text=(
            "Parameters of the price function. `log_scale`, `log_growth` and `offset` hold a number for each resource. "
            "If they are in effect, `discounted_slots` is the number of slots in which idle capacity is cheaper, and "
            "`per_slot_ahead` the money that each slot ahead adds to the price of a unit-slot, for each resource."
        ),
    )

    @staticmethod
    def reason_of(row: "Quote | Receipt") -> str | None:
        return None if row.decision.reason is None else str(row.decision.reason)

    @staticmethod
    def explanation_of(row: "Quote | Receipt") -> str:
        return explanation(row.decision, row.offered)

    @staticmethod
    def schedule_of(row: "Quote | Receipt") -> ScheduleReading | None:
        return granted(row.decision, row.snapshot)


class QuoteOut(_DecisionOut):
    payment = money(
        "Posted price of what is held; 0 where nobody pays; null if admitted where bids compete, as it depends on "
        "those that stand",
        null=True,
    )
    payoff = money("Value less payment; null if the payment is", null=True)
    arrival_slot, arrival_s, arrival_at = slot_times("slot", ARRIVAL)
    stands_until_slot, stands_until_s, stands_until_at = slot_times(
        "stands_until",
        "Last slot in which it would be tried again; null if it would not stand. Where bids compete also of a quote "
        "that is admitted, since bids that stand may come first",
        null=True,
    )
    standing_wait_slots = serializers.FloatField(
        source="standing_wait",
        allow_null=True,
        help_text="Median time from arrival to admission of recent standing bids, slots; null if it is not published.",
    )
    standing_admitted_share = serializers.FloatField(
        allow_null=True,
        help_text=(
            "Share of the last standing bids that were admitted in the end, of those that arrived longer ago than any"
            " bid stands; published in steps of 0.05; null if it is not published."
        ),
    )

    @staticmethod
    def payment_of(row: Quote) -> float | None:
        return row.decision.payment if _is_payment_known(row) else None

    @staticmethod
    def payoff_of(row: Quote) -> float | None:
        return row.decision.payoff if _is_payment_known(row) else None


def _is_payment_known(row: Quote) -> bool:
    return not (row.policy.competes and row.decision.admitted)


class DecisionOut(_DecisionOut):
    version = number("Version of the market that recorded the decision.", source="record.version")
    decided_at = wall_time("Time of the decision", source="record.decided_at")
    decided_s = serializers.FloatField(
        source="record.decided_s", help_text="Time of the decision, seconds after the epoch of the cluster."
    )
    policy = string("Name of the policy.", source="record.policy.name")
    policy_number = number("Number of the policy's version in this market.", source="record.policy.number")


class BidBrief(Answer):
    sequence = number("Number of the bid in its market, in the order of submission; it names the bid.")
    cluster = ClusterName(source="*", help_text="Name of the cluster.")
    owner = string("Name of the user who submitted the bid.", source="owner.username")
    label = string("The owner's name for the job.", blank=True)
    state = serializers.ChoiceField(BidState.choices, help_text=STATES)
    submitted_at = wall_time("Time of the submission")
    submitted_s = serializers.FloatField(help_text="Time of the submission, seconds after the epoch of the cluster.")
    arrival_slot, arrival_s, arrival_at = slot_times("arrival_slot", ARRIVAL)
    start_slot, start_s, start_at = slot_times(
        "start_slot", "Slot of the start; for a job that ended before it, of the planned start", null=True
    )
    started = serializers.BooleanField(help_text="Whether the job has run; false if it ended before its start.")
    completion_slot, completion_s, completion_at = slot_times(
        "completion_slot",
        "Slot of the completion; for a job that was cancelled, failed or complete early, of the planned completion",
        null=True,
    )
    ended_slot, ended_s, ended_at = slot_times(
        "ended_slot",
        "Slot in which the job was cancelled, failed or complete early; null if it was not",
        null=True,
    )
    value = money("Value at the completion; 0 for a job that was cancelled or failed", null=True)
    payment = money("Payment", null=True)
    refund = money("Refund of a job that failed")
    payoff = money("Value less payment plus refund", null=True)
    end_reason = string("Reason why the job failed, in words.", blank=True)
    stands_until_slot, stands_until_s, stands_until_at = slot_times(
        "stands_until", "Last slot in which a standing bid is tried again; null if it never stood", null=True
    )
    tries = number("How often a standing bid was tried again.")
    kept_from_slot, kept_from_s, kept_from_at = slot_times(
        "kept_from", "First slot in which other machines than the receipt's keep the promise", null=True
    )

    archived = serializers.BooleanField(
        help_text="Whether its request and its receipts are in the market's archive; what became of it stays here."
    )

    @staticmethod
    def archived_of(bid: Bid) -> bool:
        return bid.seal_id is not None

    @staticmethod
    def value_of(bid: Bid) -> float | None:
        found = money_of(bid)
        return None if found is None else found.value

    @staticmethod
    def payoff_of(bid: Bid) -> float | None:
        found = money_of(bid)
        return None if found is None else found.payoff


class StandingOut(Answer):
    since_slot, since_s, since_at = slot_times("since", "Slot of the rejection after which it stood")
    last_try_slot, last_try_s, last_try_at = slot_times(
        "last_try", "Slot in which it was last tried again; null if it was not", null=True
    )
    next_try_slot, next_try_s, next_try_at = slot_times(
        "next_try", "Slot of its next regular turn; null if it ends before that, or stands no longer", null=True
    )
    least_value = money(
        "Least value, to the cent, with which it would be admitted at the prices of now; null if it would be admitted"
        " as it is, if no value would be enough, or if it stands no longer",
        null=True,
    )
    explanation = string("How it stands, or stood, in words.")


class BidOut(BidBrief):
    body = serializers.DictField(
        child=serializers.JSONField(), help_text="The bid as it was sent; of an archived one at most the `program`."
    )
    decision = DecisionOut(
        allow_null=True, help_text="The last receipt; null while the bid is not decided, and once it is archived."
    )
    standing = StandingOut(allow_null=True, help_text="Tries of a bid that stands or stood; null if it never stood.")

    @staticmethod
    def decision_of(bid: Bid) -> Receipt | None:
        return receipt_of(bid)

    @staticmethod
    def standing_of(bid: Bid) -> StandingReading | None:
        return standing_of(bid)


class BidPage(Page):
    results = BidBrief(many=True, help_text="Bids, newest first.")


class BulkOut(Answer):
    results = BidBrief(many=True, help_text="Bids in the order in which they were sent.")
