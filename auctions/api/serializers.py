"""Schemas of responses in the OpenAPI document."""

# ruff: noqa: D101 (each is named for what it describes, and its fields carry their texts)
from typing import Final

from rest_framework import serializers

from auctions.domain.bid_format import WORTH
from auctions.models import BidState
from scheduling.policies.base import Objective
from web.schema import Schema, named


def _money(text: str, *, null: bool = False) -> serializers.FloatField:
    return serializers.FloatField(allow_null=null, help_text=f"{text}, money.")


def _slot(text: str, *, null: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=null, help_text=f"{text}, slot number.")


def _s(text: str, *, null: bool = False) -> serializers.FloatField:
    return serializers.FloatField(allow_null=null, help_text=f"{text}, seconds after the cluster's epoch.")


def _at(text: str, *, null: bool = False) -> serializers.DateTimeField:
    return serializers.DateTimeField(allow_null=null, help_text=f"{text}, ISO 8601 in cluster time.")


class TokenOut(Schema):
    token = serializers.CharField(help_text="Send it as `Authorization: Token ...`.")


class PlacementOut(Schema):
    server = serializers.CharField(help_text="Name of the server.")
    machine_type = serializers.CharField(help_text="Name of the machine type.")
    role = serializers.ChoiceField([("worker", "Worker"), ("ps", "Parameter server")], help_text="What it does.")
    count = serializers.IntegerField(help_text="Machines held.")
    start_slot, start_s, start_at = _slot("First held"), _s("Begins"), _at("Begins")
    end_slot, end_s, end_at = _slot("First no longer held"), _s("Ends"), _at("Ends")


class ChunksOut(Schema):
    server = serializers.CharField(help_text="Name of the server.")
    machine_type = serializers.CharField(help_text="Name of the worker's type.")
    worker = serializers.IntegerField(allow_null=True, help_text="Its number there, from 1; null: each has its own.")
    count = serializers.IntegerField(help_text="Data chunks in its queue; of a segment, workers side by side.")


class SegmentOut(ChunksOut):
    start_s, end_s = _s("Begun"), _s("Left or complete")


class SegmentsOut(Schema):
    results = SegmentOut(many=True, help_text="In order of time; those after now are forecast.")


class PreemptionOut(Schema):
    at_s = _s("Left in the middle")
    server = serializers.CharField(help_text="Name of the server.")
    worker = serializers.IntegerField(help_text="Its number there, from 1.")
    by = serializers.IntegerField(allow_null=True, help_text="Number of the bid it was left for; null: not yours.")


class PreemptionsOut(Schema):
    results = PreemptionOut(many=True, help_text="In order of time.")


class ScheduleOut(Schema):
    start_slot, start_s, start_at = _slot("Start"), _s("Start"), _at("Start")
    completion_slot, completion_s = _slot("Complete; null while paused", null=True), _s("Complete", null=True)
    completion_at = _at("Complete", null=True)
    placements = PlacementOut(
        many=True, help_text="What is held, where and when; an elastic job holds different machines in other slots."
    )
    chunks = ChunksOut(many=True, help_text="Under a policy that queues: where data chunks were sent.")


class ChangeOut(Schema):
    version = serializers.IntegerField(help_text="The market's version that brought it.")
    at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")
    now_slot, now_s, now_at = _slot("First that could still be used"), _s("It begins"), _at("It begins")
    start_slot, start_s = _slot("Start; null: in line", null=True), _s("Start", null=True)
    start_at = _at("Start", null=True)
    completion_slot, completion_s = _slot("Complete; null: not planned", null=True), _s("Complete", null=True)
    completion_at = _at("Complete", null=True)


class ChangesOut(Schema):
    results = ChangeOut(
        many=True, help_text="Oldest first. Only where schedules are plans; a promise has none but the first."
    )


class MachinesRow(Schema):
    start_slot, start_s, start_at = _slot("Held in"), _s("It begins"), _at("It begins")
    workers = serializers.IntegerField(help_text="Workers held.")
    pss = serializers.IntegerField(help_text="Parameter servers held.")


class MachinesOut(Schema):
    results = MachinesRow(many=True, help_text="One row a slot in which anything is held, in order.")


class CounterOfferOut(Schema):
    least_value = _money("With this utility.value (plus a cent) it would have been admitted")
    latest_start_slot, latest_start_s, latest_start_at = _slot("Last start"), _s("Last start"), _at("Last start")
    completion_slot, completion_s, completion_at = _slot("Complete then"), _s("Complete then"), _at("Complete then")


class QuoteOut(Schema):
    admitted = serializers.BooleanField(help_text="Whether it gets the cluster.")
    ledger_version = serializers.IntegerField(help_text="The ledger it was decided against.")
    slot = _slot("First slot that could still be traded")
    value = _money("Worth at the completion granted; 0 when rejected")
    payment = _money("Posted price of what it holds; 0 where nobody pays")
    payoff = _money("value - payment")
    reason = serializers.CharField(
        allow_null=True, help_text="Of a rejection: price, no_room, impossible, worthless, refused."
    )
    explanation = serializers.CharField(help_text="In words.")
    schedule = ScheduleOut(allow_null=True, help_text="null when rejected, or in line without a planned start.")
    counter_offer = CounterOfferOut(allow_null=True, help_text="Of a rejection: the least that would have done.")
    prices = serializers.DictField(child=serializers.JSONField(), help_text="The price function in force.")


class DecisionOut(QuoteOut):
    version = serializers.IntegerField(help_text="The market's version that recorded it.")
    decided_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")
    decided_s = _s("Decided")
    policy = serializers.CharField(help_text="Name of the policy.")
    policy_number = serializers.IntegerField(help_text="Which version of the market's policy.")


STATES: Final = (
    "submitted: waiting for its decision. quarantined: it could not be decided, and operators have been informed;"
    " they put it back in the queue, or it can be withdrawn."
)


class BidBrief(Schema):
    sequence = serializers.IntegerField(help_text="Place in the market's queue; names the bid.")
    cluster = serializers.CharField(help_text="Name of the cluster.")
    owner = serializers.CharField(help_text="Who bid.")
    label = named(serializers.CharField(allow_blank=True, help_text="As sent."))
    state = serializers.ChoiceField(BidState.choices, help_text=STATES)
    submitted_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")
    submitted_s = _s("Submitted")
    arrival_slot, arrival_s, arrival_at = _slot("Could start from"), _s("Could start from"), _at("Could start from")
    start_slot = _slot("Start; of a job that ended before it, when it would have started", null=True)
    start_s, start_at = _s("Start", null=True), _at("Start", null=True)
    started = serializers.BooleanField(help_text="Whether it has run; false if it ended before its start.")
    completion_slot = _slot("Complete; of a job that was cancelled or failed, when it would have been", null=True)
    completion_s, completion_at = _s("Complete", null=True), _at("Complete", null=True)
    ended_slot, ended_s = _slot("Cancelled or failed in", null=True), _s("Cancelled or failed", null=True)
    ended_at = _at("Cancelled or failed", null=True)
    value = _money("Worth at its completion; 0 of a job that was cancelled or failed", null=True)
    payment = _money("Payment", null=True)
    refund = _money("Paid back when it failed")
    payoff = _money("value - payment + refund", null=True)
    ended_why = serializers.CharField(allow_blank=True, help_text="Why it failed, in words.")
    kept_from_slot = _slot("Kept by other machines than the receipt's from", null=True)
    kept_from_s, kept_from_at = _s("Kept by other machines from", null=True), _at("Kept so from", null=True)


class BidOut(BidBrief):
    body = serializers.DictField(child=serializers.JSONField(), help_text="As sent.")
    decision = DecisionOut(allow_null=True, help_text="The receipt; null if it is not decided.")


class BidPage(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page (older bids).")
    previous = serializers.CharField(allow_null=True, help_text="Address of the previous page (newer bids).")
    results = BidBrief(many=True, help_text="Newest first.")


class BulkOut(Schema):
    results = BidBrief(many=True, help_text="In the order sent.")


class HeldOut(Schema):
    sequence = serializers.IntegerField(help_text="The job's bid.")
    owner = serializers.CharField(help_text="Whose it is.")
    label = named(serializers.CharField(allow_blank=True, help_text="Its owner's name for it."))
    state = serializers.ChoiceField(BidState.choices, help_text="Of the bid.")
    machine_type = serializers.CharField(help_text="Name of the machine type.")
    role = serializers.ChoiceField([("worker", "Worker"), ("ps", "Parameter server")], help_text="What it does.")
    count = serializers.IntegerField(help_text="Machines held; data chunks where queued.")
    queued = serializers.BooleanField(help_text="Whether these are chunks in a worker's queue.")
    start_slot, start_s, start_at = _slot("First held"), _s("Begins"), _at("Begins")
    end_slot, end_s = _slot("First no longer held; null: no forecast", null=True), _s("Ends", null=True)
    end_at = _at("Ends", null=True)


class ServerReadingOut(Schema):
    name = serializers.CharField(help_text="Name of the server.")
    kind = serializers.CharField(help_text="edge or cloud.")
    state = serializers.ChoiceField(
        [(name, name) for name in ("in_service", "draining", "drained", "lost")],
        help_text="draining: it takes no new work from from_slot on; drained: its deadline came; lost: nobody has it.",
    )
    from_slot, from_s = _slot("Takes no new work from", null=True), _s("Takes no new work from", null=True)
    from_at = _at("Takes no new work from", null=True)
    deadline_slot, deadline_s = _slot("Lost to those who still hold it", null=True), _s("Deadline", null=True)
    deadline_at = _at("Deadline", null=True)
    why = serializers.CharField(allow_blank=True, help_text="What the operator said.")
    said_by = serializers.CharField(allow_null=True, help_text="Who said it; null while in service.")
    said_at = serializers.DateTimeField(allow_null=True, help_text="Wall clock, ISO 8601.")
    jobs = serializers.IntegerField(help_text="How many jobs hold something there.")
    free_from_slot = _slot("Nobody holds it from this slot on, as things stand; null: no forecast", null=True)
    free_from_s, free_from_at = _s("Nobody holds it from", null=True), _at("Nobody holds it from", null=True)
    held = HeldOut(many=True, help_text="Who holds what there from now on, by start.")


class ServerPage(Schema):
    results = ServerReadingOut(many=True, help_text="Every server, in the order of prices.")


class ClusterBrief(Schema):
    name = serializers.CharField(help_text="Used in addresses.")
    title = serializers.CharField(help_text="For people.")
    note = serializers.CharField(allow_blank=True, help_text="Says when values are synthetic.")
    epoch = serializers.DateTimeField(help_text="Start of slot 0.")
    slot_seconds = serializers.IntegerField(help_text="Length of a slot, seconds.")
    horizon_slots = serializers.IntegerField(help_text="Slots traded from now on.")
    has_market = serializers.BooleanField(help_text="Whether there is a market.")
    is_open = serializers.BooleanField(help_text="Whether the market takes bids.")
    compiling = serializers.CharField(
        allow_blank=True, help_text="Why bids wait: the kernels that are being compiled, in words. Empty if none are."
    )


class ClusterPage(Schema):
    results = ClusterBrief(many=True, help_text="Every cluster, by name.")


class TypeOut(Schema):
    name = serializers.CharField(help_text="Key of worker_step_s or ps_step_s.")
    role = serializers.ChoiceField([("worker", "Worker"), ("ps", "Parameter server")], help_text="What it does.")
    bandwidth_mbps = serializers.FloatField(help_text="Reserved by one machine, Mbit/s.")


class ServerOut(Schema):
    name = serializers.CharField(help_text="Key of upload_delay_s.")
    kind = serializers.CharField(help_text="edge or cloud.")
    upload_delay_s = serializers.FloatField(help_text="Seconds to upload a job's data.")
    storage_mb = serializers.FloatField(
        allow_null=True, help_text="MB it can store of jobs' data; null: without limit."
    )


class ClusterOut(ClusterBrief):
    resources = serializers.ListField(child=serializers.CharField(), help_text="Names, in the order of prices.")
    machine_types = TypeOut(many=True, help_text="Worker and parameter-server types.")
    servers = ServerOut(many=True, help_text="In the order of prices.")
    models = serializers.ListField(child=serializers.CharField(), help_text="What `model` of a bid may be.")
    worth = serializers.ChoiceField(
        sorted(WORTH.values()), allow_null=True, help_text="Which of the two a bid gives; null without a market."
    )
    architectures = serializers.ListField(
        child=serializers.CharField(), help_text="What `architecture` of a bid may be; none without a market."
    )


class _Window(Schema):
    version = serializers.IntegerField(help_text="The market's version.")
    from_slot, to_slot = _slot("First told"), _slot("First not told")
    now_slot = _slot("First that can still be traded")
    truncated = serializers.BooleanField(help_text="True if more is known than one answer holds: ask from to_slot.")
    servers = serializers.ListField(child=serializers.CharField(), help_text="Second axis.")
    resources = serializers.ListField(child=serializers.CharField(), help_text="Third axis.")


def _cube(child: serializers.Field, text: str) -> serializers.ListField:  # type: ignore[type-arg]
    return serializers.ListField(child=serializers.ListField(child=serializers.ListField(child=child)), help_text=text)


class _Closed(_Window):
    closed = serializers.ListField(
        child=serializers.ListField(child=serializers.BooleanField()),
        help_text="By slot and server: whether it takes no new work, as it is drained or lost; nothing is sold there.",
    )


class PricesOut(_Closed):
    prices = _cube(serializers.FloatField(), "Money per unit and slot, by slot, server, resource; 0 where not known.")
    known = serializers.ListField(child=serializers.BooleanField(), help_text="By slot: whether prices were kept.")


class UtilisationOut(_Closed):
    used = _cube(serializers.IntegerField(), "Units held, by slot, server, resource.")
    capacity = serializers.ListField(
        child=serializers.ListField(child=serializers.IntegerField()),
        help_text="Units, by server and resource; of a server out of service, what it has.",
    )


class BoundOut(Schema):
    kind = serializers.CharField(help_text="zero_price or posted_price: how it was proved.")
    value = _money("No scheduler could have had more welfare from the bids decided")
    zero_price, posted_price = _money("The zero-price bound"), _money("The posted-price bound")
    welfare = _money("Welfare of the same bids")
    gap = serializers.FloatField(help_text="(bound - welfare) / bound.")
    decided = serializers.IntegerField(help_text="Bids it covers.")
    version = serializers.IntegerField(help_text="The market's version it speaks of.")
    took_ms = serializers.FloatField(help_text="Milliseconds it took.")
    computed_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")


class WelfareRow(Schema):
    sequence = serializers.IntegerField(allow_null=True, help_text="The bid decided; null: a publication.")
    decided = serializers.IntegerField(help_text="Bids decided so far.")
    slot, seconds = _slot("Decided or published"), _s("Decided or published")
    welfare, revenue = _money("Sum of values so far"), _money("Payments less refunds so far")
    zero_price_bound = _money("Zero-price bound so far; null: a publication", null=True)


class WelfareOut(Schema):
    version = serializers.IntegerField(help_text="The market's version.")
    truncated = serializers.BooleanField(help_text="True if older rows are left out.")
    rows = WelfareRow(
        many=True, help_text="The latest decisions (operators) or publications (bidders), cumulative, oldest first."
    )
    bound = BoundOut(allow_null=True, help_text="The certified upper bound; for operators.")


SUMMARY_COUNTS: Final = (
    *("version", "ledger_version", "policy_number", "submitted", "admitted", "rejected"),
    *("waiting", "withdrawn", "quarantined", "planned", "running", "completed", "cancelled", "failed"),
)
SUMMARY_TIMES: Final = ("mean_wait", "mean_flow", "weighted_flow")
SUMMARY_MONEY: Final = ("welfare", "revenue", "bidder_payoff", "utilisation", "price")


class SummaryOut(Schema):
    version = serializers.IntegerField(help_text="The market's version.")
    ledger_version = serializers.IntegerField(help_text="Version of the last event that moved the ledger.")
    current_slot, current_s, current_at = _slot("Under way"), _s("Slot under way began"), _at("Slot under way began")
    now_slot, now_s, now_at = _slot("First that can still be traded"), _s("It begins"), _at("It begins")
    end_slot, end_s, end_at = _slot("First beyond the horizon"), _s("It begins"), _at("It begins")
    published_slot = _slot("Counts, money and times are as of its beginning; null: as of now", null=True)
    published_s, published_at = _s("It began", null=True), _at("It began", null=True)
    is_open = serializers.BooleanField(help_text="Whether it takes bids.")
    policy = serializers.CharField(help_text="Name of the policy in force.")
    policy_number = serializers.IntegerField(help_text="Its version.")
    objective = serializers.ChoiceField(
        [(str(objective), objective.name) for objective in Objective],
        help_text="What the policy tries to make good: welfare (an auction) or weighted completion (nobody pays).",
    )
    submitted = serializers.IntegerField(help_text="Bids: admitted + rejected + waiting + withdrawn + quarantined.")
    admitted = serializers.IntegerField(help_text="Bids: planned + running + completed + cancelled + failed.")
    rejected, waiting = serializers.IntegerField(help_text="Bids."), serializers.IntegerField(help_text="Bids.")
    withdrawn, planned = serializers.IntegerField(help_text="Bids."), serializers.IntegerField(help_text="Jobs.")
    quarantined = serializers.IntegerField(help_text="Bids that could not be decided; operators have been informed.")
    running, completed = serializers.IntegerField(help_text="Jobs."), serializers.IntegerField(help_text="Jobs.")
    cancelled, failed = serializers.IntegerField(help_text="Jobs."), serializers.IntegerField(help_text="Jobs.")
    in_line = serializers.IntegerField(help_text="Planned jobs without a start yet.")
    mean_wait = serializers.FloatField(allow_null=True, help_text="Slots from arrival to start, of started jobs.")
    mean_flow = serializers.FloatField(allow_null=True, help_text="Slots from arrival to completion, of complete jobs.")
    weighted_flow = serializers.FloatField(
        allow_null=True, help_text="The same, weighted by their values or weights; for operators."
    )
    welfare, revenue = _money("bidder_payoff + revenue"), _money("Payments less what was paid back")
    bidder_payoff = _money("welfare - revenue")
    admitted_share = serializers.FloatField(allow_null=True, help_text="Of the decided bids, 0 to 1.")
    utilisation = serializers.FloatField(help_text="Mean share in use in the last slot that began, 0 to 1.")
    price = serializers.FloatField(help_text="Mean price now, money per unit and slot.")
    bound = BoundOut(allow_null=True, help_text="The certified upper bound; for operators.")
