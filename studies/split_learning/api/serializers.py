"""OpenAPI schemas of requests and answers about plans."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.split_learning.instance import LARGEST_SLOTS, MOST_CLIENTS, MOST_HELPERS
from scheduling.split_learning.methods import METHODS
from studies.background.models import JobState
from studies.background.shapes import place_field, stage_field
from studies.models import MOST_SECONDS, Question
from studies.split_learning.described import LARGEST_MBPS, LEAST_MBPS
from studies.split_learning.plans.changes import LARGEST_FACTOR
from studies.split_learning.plans.request import LEAST_SECONDS, LONGEST_LABEL, SECONDS
from studies.split_learning.scenarios import SLOT_MS
from web.schema import Schema, named

_SLOTS: Final = {"type": "integer", "minimum": 0, "maximum": LARGEST_SLOTS}
_TABLE: Final = {"type": "array", "minItems": 1, "items": {"type": "array", "minItems": 1, "items": _SLOTS}}
_GB: Final[dict[str, Any]] = {
    "oneOf": [
        {"type": "number", "minimum": 0, "maximum": 10**8},
        {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,9})?$"},
    ]
}


def _slots(text: str, *, null: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=null, min_value=0, help_text=f"{text}, slots.")


def _slots_in(name: str, required: bool = False) -> serializers.IntegerField:
    return serializers.IntegerField(
        required=required, min_value=0, max_value=LARGEST_SLOTS, help_text=f"As `{name}` of an instance, slots."
    )


@extend_schema_field(_TABLE)
class SlotsIn(serializers.JSONField):
    """A matrix of whole slots: one row for each helper, with one number for each client."""


@extend_schema_field(_GB)
class GigabytesIn(serializers.JSONField):
    """GB as a number, or exactly as a string."""


class HelperIn(Schema):
    name = serializers.CharField(
        required=False, min_length=1, max_length=100, help_text="helper-1 and so on if not given."
    )
    memory_gb = GigabytesIn(required=False, help_text="Its memory, GB; with a cluster, its server's if not given.")
    switch = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=LARGEST_SLOTS,
        help_text="Slots that each start and each stop of a pass adds to its completion; 0 if not given.",
    )


class ClientIn(Schema):
    name = serializers.CharField(
        required=False, min_length=1, max_length=100, help_text="client-1 and so on if not given."
    )
    demand_gb = GigabytesIn(help_text="Memory it takes on its helper, GB.")


class InstanceIn(Schema):
    slot_ms = serializers.IntegerField(
        required=False, min_value=1, max_value=10**9, help_text="Milliseconds of a slot; 1 if not given."
    )
    helpers = serializers.ListField(
        child=HelperIn(), min_length=1, max_length=MOST_HELPERS, help_text="Who runs the middle of networks."
    )
    clients = serializers.ListField(child=ClientIn(), min_length=1, max_length=MOST_CLIENTS, help_text="Who trains.")
    release = SlotsIn(help_text="Until a forward pass is at the helper.")
    forward = SlotsIn(help_text="That it takes there.")
    gap = SlotsIn(
        required=False,
        help_text="From the end of the forward pass until the backward one is there. Or both parts of it.",
    )
    tail_forward = SlotsIn(required=False, help_text="Of the gap, until the client has the activations and is through.")
    head_backward = SlotsIn(required=False, help_text="Of the gap, until the gradients are at the helper.")
    backward = SlotsIn(help_text="That the backward pass takes.")
    tail = SlotsIn(help_text="From its end until the client's batch is over.")
    name = serializers.CharField(required=False, help_text="Not used.")
    note = serializers.CharField(required=False, help_text="Not used.")
    paper = serializers.CharField(required=False, help_text="Not used.")
    expected = serializers.DictField(required=False, help_text="Not used.")
    meta = serializers.DictField(required=False, help_text="Not used.")


class ScenarioIn(Schema):
    number = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2,
        help_text="1 (if not given): the paper's cuts and 16 GiB; 2: devices in between, drawn cuts, little memory.",
    )
    model = serializers.ChoiceField(sorted(SLOT_MS), help_text="Whose layers were measured.")
    clients = serializers.IntegerField(min_value=1, max_value=1000, help_text="How many.")
    helpers = serializers.IntegerField(min_value=1, max_value=100, help_text="How many.")
    slot_ms = serializers.IntegerField(
        required=False, min_value=1, max_value=10**6, help_text="Milliseconds of a slot; the paper's if not given."
    )
    seed = serializers.IntegerField(
        required=False, min_value=0, max_value=10**9, help_text="Of devices, cuts, links and memory; 0 if not given."
    )


def _rate(text: str) -> serializers.FloatField:
    return serializers.FloatField(required=False, min_value=LEAST_MBPS, max_value=LARGEST_MBPS, help_text=text)


_UP: Final = "From clients to helpers, if it is not the same."
_DOWN: Final = "From helpers to clients, likewise."


@extend_schema_field(
    {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "minimum": 1, "maximum": 100}}
)
class CutsIn(serializers.JSONField):
    """The last layer of the client's first part, and the last layer of the helper's part."""


class DescribedHelperIn(Schema):
    name = serializers.CharField(
        required=False, min_length=1, max_length=100, help_text="helper-1 and so on if not given."
    )
    device = serializers.CharField(help_text="A measured device, such as vm or m1.")
    other = serializers.CharField(required=False, help_text="Another one: it lies between the two.")
    share = serializers.FloatField(required=False, min_value=0, max_value=1, help_text="How near it is to the other.")
    memory_gb = GigabytesIn(required=False, help_text="Its memory, GB; with a cluster, its server's if not given.")


class DescribedClientIn(Schema):
    name = serializers.CharField(
        required=False, min_length=1, max_length=100, help_text="client-1 and so on if not given."
    )
    device = serializers.CharField(help_text="A measured device, such as rpi4, rpi3, jetson-cpu or jetson-gpu.")
    other = serializers.CharField(required=False, help_text="Another one: it lies between the two.")
    share = serializers.FloatField(required=False, min_value=0, max_value=1, help_text="How near it is to the other.")
    cuts = CutsIn(required=False, help_text="Its own cuts, as those of the profile.")
    demand_gb = GigabytesIn(
        required=False, help_text="Memory it takes on its helper, GB; else weights and activations of the part there."
    )
    mbps = _rate("Of its links, Mbit/s.")
    up_mbps, down_mbps = _rate(_UP), _rate(_DOWN)


class LinkIn(Schema):
    client = serializers.CharField(help_text="Name of the client.")
    helper = serializers.CharField(help_text="Name of the helper.")
    mbps = _rate("Of this link, Mbit/s.")
    up_mbps, down_mbps = _rate(_UP), _rate(_DOWN)


class ProfileIn(Schema):
    model = serializers.ChoiceField(sorted(SLOT_MS), help_text="Whose layers were measured, batches of 128 images.")
    cuts = CutsIn(
        required=False,
        help_text="The last layer of the client's first part and of the helper's; the paper's if not given.",
    )
    slot_ms = serializers.IntegerField(
        required=False, min_value=1, max_value=10**6, help_text="Milliseconds of a slot; the paper's if not given."
    )
    mbps = _rate("Of all links that nothing else is said of, Mbit/s.")
    up_mbps, down_mbps = _rate(_UP), _rate(_DOWN)
    helpers = serializers.ListField(
        child=DescribedHelperIn(), min_length=1, max_length=MOST_HELPERS, help_text="Who runs the middle of networks."
    )
    clients = serializers.ListField(
        child=DescribedClientIn(), min_length=1, max_length=MOST_CLIENTS, help_text="Who trains."
    )
    links = serializers.ListField(child=LinkIn(), required=False, help_text="Single links, before what clients say.")


class LabelledIn(Schema):
    label = named(
        serializers.CharField(
            required=False,
            allow_blank=True,
            max_length=LONGEST_LABEL,
            help_text="Your name for it; of a plan made again that of the plan before if not given.",
        )
    )


class PlanIn(LabelledIn):
    instance = InstanceIn(required=False, help_text="What has to be planned. Or a profile, or a scenario.")
    profile = ProfileIn(required=False, help_text="Devices, cuts, links and memory as they were measured.")
    scenario = ScenarioIn(required=False, help_text="Measured devices and links drawn from a seed, for an instance.")
    method = serializers.ChoiceField(list(METHODS), required=False, help_text="exact if not given.")
    seconds = serializers.FloatField(
        required=False,
        min_value=LEAST_SECONDS,
        max_value=MOST_SECONDS,
        help_text=f"Budget of time; {SECONDS:g} if not given.",
    )
    seed = serializers.IntegerField(
        required=False, min_value=0, max_value=10**9, help_text="Of what the method draws; 0 if not given."
    )
    cluster = serializers.CharField(
        required=False, help_text="Name of a cluster: each helper is then one of its servers, by name."
    )


class TimesIn(Schema):
    client = serializers.CharField(help_text="Whose.")
    helper = serializers.CharField(required=False, help_text="With whom; with all of them if not given.")
    release, forward, gap = _slots_in("release"), _slots_in("forward"), _slots_in("gap")
    backward, tail = _slots_in("backward"), _slots_in("tail")


class JoinedTimesIn(Schema):
    release, forward, gap = _slots_in("release", True), _slots_in("forward", True), _slots_in("gap", True)
    backward, tail = _slots_in("backward", True), _slots_in("tail", True)


class JoinIn(Schema):
    name = serializers.CharField(min_length=1, max_length=100, help_text="That nobody has yet.")
    like = serializers.CharField(required=False, help_text="A client whose times and demand it has; or say them:")
    demand_gb = GigabytesIn(required=False, help_text="Memory it takes on its helper, GB.")
    times = serializers.DictField(child=JoinedTimesIn(), required=False, help_text="By name of each helper.")


def _factors(text: str) -> serializers.DictField:
    return serializers.DictField(
        child=serializers.FloatField(min_value=0, max_value=LARGEST_FACTOR), required=False, help_text=text
    )


class ChangesIn(Schema):
    drop = serializers.ListField(child=serializers.CharField(), required=False, help_text="Clients that dropped out.")
    gone = serializers.ListField(child=serializers.CharField(), required=False, help_text="Helpers that are gone.")
    slower = _factors("By client: release, gap and tail take so many times as long, rounded up.")
    slower_helpers = _factors("By helper: its passes take so many times as long, rounded up.")
    times = serializers.ListField(child=TimesIn(), required=False, help_text="New times of clients, slots.")
    join = serializers.ListField(child=JoinIn(), required=False, help_text="Clients that join.")


class ReplanIn(LabelledIn):
    changes = ChangesIn(required=False, help_text="What is different now, at least one thing. Or a whole instance.")
    instance = InstanceIn(
        required=False, help_text="What there is now; clients and helpers are the same if their names are."
    )
    seconds = serializers.FloatField(
        required=False,
        min_value=LEAST_SECONDS,
        max_value=MOST_SECONDS,
        help_text="Budget of time, for the bound; that of the plan before if not given.",
    )
    seed = serializers.IntegerField(
        required=False, min_value=0, max_value=10**9, help_text="Of what is drawn for the bound; likewise."
    )


class StepOut(Schema):
    seconds = serializers.FloatField(help_text="Since kernels were loaded.")
    lower_bound, makespan = _slots("No plan is shorter"), _slots("The best so far", null=True)
    note = serializers.CharField(allow_blank=True, help_text="What was done last.")


@extend_schema_field(
    {"type": "array", "items": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer"}}}
)
class PiecesOut(serializers.JSONField):
    """A list of pairs of slots."""


class PathOut(Schema):
    client = serializers.CharField(help_text="Its name.")
    helper = serializers.CharField(help_text="Name of its helper.")
    release = _slots("Until its forward pass is at the helper")
    forward = PiecesOut(help_text="When its forward pass runs: pairs of first slot and first no longer.")
    gap = _slots("From its end until the backward pass is there")
    backward = PiecesOut(help_text="When its backward pass runs, likewise.")
    tail = _slots("From its end until the batch is over")
    completion, slack = _slots("When its batch is over"), _slots("Earlier than the slowest by")
    waiting = _slots("How long its passes waited or were interrupted")
    key_forward = serializers.IntegerField(help_text="Priority its helper is sent: the greatest that is there runs.")
    key_backward = serializers.IntegerField(help_text="The same, of its backward pass.")


class ReplannedOut(Schema):
    client = serializers.CharField(help_text="Its name.")
    helper = serializers.CharField(allow_null=True, help_text="Name of its helper; null if it dropped out.")
    what = serializers.ChoiceField(
        ["kept", "joined", "moved", "dropped"], help_text="moved: the helper it had is gone; kept: on its helper."
    )
    completion_before = _slots("When its batch was over in the plan before", null=True)
    completion = _slots("When it is over now", null=True)


class ResultOut(Schema):
    makespan, lower_bound = _slots("Until the slowest client is through"), _slots("No plan is shorter")
    makespan_s = serializers.FloatField(help_text="The makespan, seconds.")
    preemptive = serializers.BooleanField(help_text="Whether a pass that arrives interrupts one with a smaller key.")
    interruptions = serializers.IntegerField(help_text="How often a pass is interrupted.")
    clients = PathOut(many=True, help_text="Each client's path, in the order of the instance.")
    changes = ReplannedOut(
        many=True, allow_null=True, help_text="Of a plan made again: what it means for each client; else null."
    )
    from_scratch = _slots("Of a plan made again: the best that was found with no assignment to keep", null=True)


class PlanRow(Schema):
    label = named(serializers.CharField(allow_blank=True, help_text="Your name for it."))
    id = serializers.IntegerField(help_text="Names it in addresses.")
    state = serializers.ChoiceField(JobState.choices, help_text="queued and running change, the others are final.")
    stage = stage_field()
    method = serializers.CharField(help_text="How it is planned.")
    seconds = serializers.FloatField(help_text="Budget of time.")
    seed = serializers.IntegerField(help_text="Of what the method draws.")
    helpers, clients = serializers.IntegerField(help_text="How many."), serializers.IntegerField(help_text="How many.")
    slot_ms = serializers.IntegerField(help_text="Milliseconds of a slot.")
    lower_bound, makespan = _slots("No plan is shorter", null=True), _slots("The best so far", null=True)
    gap = serializers.FloatField(allow_null=True, help_text="makespan / lower_bound - 1; 0: proven to be the best.")
    optimal = serializers.BooleanField(help_text="Whether the best so far is proven to be the best.")
    of = serializers.IntegerField(allow_null=True, help_text="Number of the plan it was asked for beside.")
    question = serializers.ChoiceField(
        Question.choices, allow_blank=True, help_text="Why: another method, one more helper, again after changes."
    )
    owner = serializers.CharField(help_text="Who asked.")
    cluster = serializers.CharField(allow_null=True, help_text="Whose servers the helpers are.")
    note = serializers.CharField(allow_blank=True, help_text="What was done last.")
    error = serializers.CharField(allow_blank=True, help_text="Why it failed.")
    submitted_at = serializers.DateTimeField(help_text="Wall clock, ISO 8601.")
    started_at = serializers.DateTimeField(allow_null=True, help_text="Wall clock, ISO 8601.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Wall clock, ISO 8601.")
    duration_s = serializers.FloatField(
        allow_null=True, help_text="Seconds from start to end, loading kernels included."
    )


class PlanOut(PlanRow):
    place = place_field()
    instance = serializers.DictField(help_text="As it is planned, with all names, in the format of requests.")
    steps = StepOut(many=True, help_text="What was known when, oldest first; of many only some.")
    result = ResultOut(allow_null=True, help_text="The plan; null while there is none.")


class PlanPage(Schema):
    next = serializers.CharField(allow_null=True, help_text="Address of the next page.")
    previous = serializers.CharField(allow_null=True, help_text="Address of the page before.")
    results = PlanRow(many=True, help_text="Newest first.")


class MakespansOut(Schema):
    mean = serializers.FloatField(help_text="Over all draws, slots.")
    worst = _slots("Of all draws")


class NoisyOut(Schema):
    planned, priorities = _slots("What the plan said"), _slots("Helpers follow the priorities they were sent")
    first_come = _slots("Helpers take passes as they arrive")
    replanned = _slots("Helpers are sent new priorities, made for the times as they turned out")
    bound = _slots("The longest path that no assignment avoids, with these times")


class NoiseOut(Schema):
    spread = serializers.FloatField(help_text="Times are multiplied by factors in 1 - spread to 1 + spread.")
    seed = serializers.IntegerField(help_text="Of the draws.")
    planned = _slots("What the plan said")
    priorities = MakespansOut(help_text="Helpers follow the priorities they were sent.")
    first_come = MakespansOut(help_text="Helpers take passes as they arrive.")
    replanned = MakespansOut(help_text="Helpers are sent new priorities, made for the times as they turned out.")
    bound = MakespansOut(help_text="The longest path that no assignment avoids, with these times.")
    draws = NoisyOut(many=True, help_text="Each draw, in slots.")
