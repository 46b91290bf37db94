"""Shapes of responses about clusters and their markets: each writes a row, and describes it in OpenAPI."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from collections.abc import Callable

from rest_framework import serializers

from auctions.api.bid_shapes import ROLES
from auctions.api.fields import money, number, slot_times, string, wall_time
from auctions.domain.bid_check import VALUE_KEYS
from scheduling.policies.base import Objective
from web.writing import Answer, Columns


class TokenOut(Answer):
    token = string("Token; send it in the header `Authorization: Token ...`.")


class ClusterBrief(Answer):
    name = string("Name used in addresses.", source="cluster.name")
    title = string("Title for people.", source="cluster.title")
    note = string("Note that says whether values are synthetic.", source="cluster.note", blank=True)
    epoch = serializers.DateTimeField(source="cluster.epoch", help_text="Start of slot 0.")
    slot_seconds = number("Length of a slot, seconds.", source="cluster.slot_seconds")
    horizon_slots = number("Number of slots on sale, from the next one on.", source="cluster.horizon_slots")
    has_market = serializers.BooleanField(help_text="Whether there is a market.")
    is_open = serializers.BooleanField(help_text="Whether the market takes bids.")
    compiling = string(
        "Kernels that are being compiled while bids wait, in words; empty if there are none.", blank=True
    )


class ClusterPage(Answer):
    results = ClusterBrief(many=True, help_text="All clusters, by name.")


class TypeOut(Answer):
    name = string("Name of the machine type; a key of worker_step_s or ps_step_s.")
    role = serializers.ChoiceField(ROLES, help_text="Whether it is a worker or a parameter server.")
    bandwidth_mbps = serializers.FloatField(help_text="Bandwidth that one machine reserves, Mbit/s.")


class ServerOut(Answer):
    name = string("Name of the server; a key of upload_delay_s.")
    kind = string("Kind of the server: edge or cloud.")
    upload_delay_s = serializers.FloatField(help_text="Seconds to upload a job's data.")
    storage_mb = serializers.FloatField(
        allow_null=True, help_text="Storage for jobs' data, MB; null if it is not limited."
    )


def _names(what: str) -> serializers.ListField:
    return serializers.ListField(child=serializers.CharField(), help_text=what)


class ClusterOut(ClusterBrief):
    resources = _names("Names of the resources, in the order of prices.")
    machine_types = TypeOut(many=True, help_text="Types of workers and parameter servers.")
    servers = ServerOut(many=True, help_text="Servers, in the order of prices.")
    models = _names("Names that `model` of a bid may have.")
    value_key = serializers.ChoiceField(
        sorted(VALUE_KEYS.values()),
        allow_null=True,
        help_text="The key by which a bid states the value of its completion; null without a market.",
    )
    standing_by_default = serializers.BooleanField(
        source="cluster.standing_by_default", help_text="Value of `standing` in bids that do not state it."
    )
    architectures = _names("Values that `architecture` of a bid may have; none without a market.")


class _Window(Answer):
    version = number("Version of the market.")
    from_slot = number("First slot of the answer, slot number.")
    to_slot = number("First slot after the answer, slot number.")
    next_slot = number("First slot that can still be sold, slot number.")
    truncated = serializers.BooleanField(help_text="Whether more slots are known, which `from_slot` = to_slot gives.")
    servers = _names("Names of the servers: the second axis.")
    resources = _names("Names of the resources: the third axis.")


def _table(child: Callable[[], serializers.Field], axes: int, what: str) -> serializers.ListField:  # type: ignore[type-arg]
    """Return a field for an array with this number of axes."""
    field = child()
    for _ in range(axes - 1):
        field = serializers.ListField(child=field)
    return serializers.ListField(child=field, help_text=what)


class _Closed(_Window):
    closed = _table(
        serializers.BooleanField, 2, "Whether the server is drained or lost, so that it sells nothing, by slot, server."
    )


class PricesOut(_Closed):
    prices = _table(
        serializers.FloatField, 3, "Money for one unit-slot, by slot, server, resource; 0 where it is not known."
    )
    known = _table(serializers.BooleanField, 1, "Whether the prices were stored, by slot.")


class UtilisationOut(_Closed):
    used = _table(serializers.IntegerField, 3, "Units held, by slot, server, resource.")
    capacity = _table(
        serializers.IntegerField, 2, "Units, by server, resource; a server out of service has its full capacity here."
    )


class BoundOut(Answer):
    kind = string("Kind of the proof: zero_price or posted_price.")
    value = money("Upper bound on the welfare of any schedule of the decided bids")
    zero_price = money("Bound at prices of 0")
    posted_price = money("Bound at the posted prices")
    welfare = money("Welfare of the same bids")
    gap = serializers.FloatField(help_text="(value - welfare) / value.")
    decided = number("Number of bids that it covers.")
    version = number("Version of the market that it refers to.")
    duration_ms = serializers.FloatField(help_text="Milliseconds that the computation took.")
    computed_at = wall_time("Time of the computation")


class WelfareRow(Answer):
    sequence = number("Number of the decided bid; null for a publication.", null=True)
    decided = number("Number of bids decided so far.")
    slot = number("Slot of the decision or publication, slot number.")
    seconds = serializers.FloatField(help_text="Time of it, seconds after the epoch of the cluster.")
    welfare = money("Sum of values so far")
    revenue = money("Payments less refunds so far; null for publications where bids compete", null=True)
    zero_price_bound = money("Bound at prices of 0 so far; null for a publication", null=True)


class WelfareOut(Answer):
    version = number("Version of the market.")
    truncated = serializers.BooleanField(help_text="Whether older rows are left out.")
    rows = Columns(
        child=WelfareRow(),
        help_text="The latest decisions (operators) or publications (bidders), cumulative, oldest first.",
    )
    bound = BoundOut(allow_null=True, help_text="The certified upper bound; for operators.")


class SummaryOut(Answer):
    version = number("Version of the market.")
    ledger_version = number("Version of the last event that changed the ledger.")
    current_slot, current_s, current_at = slot_times("slot", "Slot under way, -1 before the epoch")
    next_slot, next_s, next_at = slot_times("now", "First slot that can still be sold")
    end_slot, end_s, end_at = slot_times("end", "First slot beyond the horizon")
    published_slot, published_s, published_at = slot_times(
        "published", "Slot at whose start the counts, money and times were taken; null if they are as of now", null=True
    )
    is_open = serializers.BooleanField(help_text="Whether the market takes bids.")
    policy = string("Name of the policy in force.")
    policy_number = number("Number of its version in this market.")
    objective = serializers.ChoiceField(
        [(str(objective), objective.name) for objective in Objective],
        help_text="Objective of the policy: welfare (an auction), or weighted completion or completion (nobody pays).",
    )
    submitted = number("Number of bids: admitted + rejected + undecided + standing + withdrawn + quarantined.")
    admitted = number("Number of admitted bids: planned + running + completed + cancelled + failed.")
    rejected = number("Number of rejected bids.")
    undecided = number("Number of bids that wait for their decision.")
    standing = number(
        "Rejected bids that are tried again; null for bidders, who read them as rejected.",
        null=True,
    )
    withdrawn = number("Number of withdrawn bids.")
    quarantined = number("Number of bids on which the policy failed; operators have been informed.")
    planned = number("Number of admitted jobs that have not started.")
    running = number("Number of jobs that run.")
    completed = number("Number of completed jobs.")
    cancelled = number("Number of cancelled jobs.")
    failed = number("Number of failed jobs.")
    in_line = number("Number of planned jobs without a planned start.")
    mean_wait_slots = serializers.FloatField(
        allow_null=True, help_text="Mean time from arrival to start of the jobs that run or are completed, slots."
    )
    mean_jct_slots = serializers.FloatField(
        allow_null=True, help_text="Mean time from arrival to completion of the completed jobs, slots."
    )
    weighted_jct_slots = serializers.FloatField(
        allow_null=True, help_text="The same mean, weighted by values or weights, slots; for operators."
    )
    welfare = money("Payoff plus revenue")
    revenue = money("Payments less refunds; null for bidders where bids compete", null=True)
    payoff = money("Welfare less revenue: what is left to the bidders; null if revenue is", null=True)
    acceptance = serializers.FloatField(allow_null=True, help_text="Admitted bids over decided bids, 0 to 1.")
    utilisation = serializers.FloatField(help_text="Mean share of units held in the slot under way, 0 to 1.")
    price = money("Mean price of a unit-slot in the next slot")
    bound = BoundOut(allow_null=True, help_text="The certified upper bound; for operators.")
