"""The form of a bid: it converts input in hours to a body of the API in seconds, and back."""

import json
import math
import shlex
from typing import Any, Final

from django import forms
from django.contrib.auth.models import User

from auctions.domain.bid_check import LARGEST_LABEL, LEAST_WEIGHT, VALUE_KEYS
from auctions.domain.bid_conversion import policy_in_force
from auctions.domain.standing_rule import longest_stand
from auctions.domain.utilities import UTILITIES
from cluster.models import Cluster, MachineRole, MachineType, ModelProfile
from execution.programs import open_names
from frontend.forms.base import ArgumentsField, GoesWith, PageForm
from scheduling.model.errors import InvalidField, OutOfRange
from scheduling.model.json_text import read_json
from scheduling.model.types import Json
from scheduling.model.validation import every_digit, plain, shown
from scheduling.policies.base import Objective
from scheduling.policies.posted_price import PostedPricePolicy

HOUR_S: Final = 3600
AFTER_ARRIVAL: Final = "Hours after arrival, when the next slot begins."
FORMS: Final = (
    ("constant", "Constant: the same at any completion"),
    ("step", "Deadline: the full value until then, 0 after it"),
    ("linear", "Linear: falls to 0 at a constant rate"),
    ("sigmoid", "Sigmoid: falls around a given time"),
    ("inverse", "Inverse: falls fast at first"),
    ("piecewise_linear", "Piecewise linear: through given points"),
)
COVERED: Final = (
    "label",
    "model",
    "epochs",
    "chunks",
    "minibatches",
    "gradient_mb",
    "chunk_mb",
    "start_after_s",
    "utility",
    "weight",
    "architecture",
    "reduce_step_s",
    "standing",
    "standing_until_s",
)
PROGRAM_NAMES: Final = ("program", "arguments", "steps", "continues")
"""Fields of the program that runs."""
UTILITY_NAMES: Final = ("value", "form", "deadline_h", "zero_at_h", "midpoint_h", "steepness_per_h", "points")
"""Fields that state how the value falls with time."""
UNITS: Final = {"deadline_s": HOUR_S, "zero_at_s": HOUR_S, "midpoint_s": HOUR_S, "steepness_per_s": 1 / HOUR_S}
"""Seconds in the unit of each field of a utility."""
FIELD_OF: Final = {f"utility.{key}": key.replace("_per_s", "_per_h").replace("_s", "_h") for key in UNITS} | {
    "utility.form": "form",
    "utility.value": "value",
    "start_after_s": "start_after_h",
    "standing_until_s": "standing_until_h",
    "program.arguments": "arguments",
    "program.steps": "steps",
    "program.continues": "continues",
}
"""The form's field for each field of a body with another name."""
SHOWN_WITH: Final = {
    FIELD_OF.get(f"utility.{key}", key): GoesWith(
        "form", [form for form, shape in UTILITIES.items() if key in shape().get_fields()]
    )
    for key in (*UNITS, "points")
} | {"reduce_step_s": GoesWith("architecture", ["ring"])}
TYPED_IN: Final = {f"utility.{key}": unit for key, unit in UNITS.items()} | {
    "start_after_s": HOUR_S,
    "standing_until_s": HOUR_S,
}
"""Units of a body's field in one unit of the form's field."""


class BidForm(PageForm):
    """The fields of a bid; the market checks them."""

    goes_with = SHOWN_WITH
    label = forms.CharField(required=False, max_length=LARGEST_LABEL, help_text="Your own name for this bid.")
    model = forms.ChoiceField(required=False, help_text="Sets gradient size, data and step times.")
    epochs = forms.IntegerField(min_value=1, initial=10, help_text="Number of passes over all data.")
    program = forms.ChoiceField(required=False, help_text="It runs on the machines that the job gets.")
    arguments = ArgumentsField(
        required=False, help_text="For the program, after its own; quote those with spaces. No shell reads them."
    )
    steps = forms.IntegerField(
        required=False, min_value=1, help_text="Number of steps that the program takes; empty if it is not known."
    )
    continues = forms.IntegerField(
        required=False,
        min_value=1,
        help_text="Number of an earlier bid of yours with this program: resume from its newest checkpoint.",
    )
    architecture = forms.ChoiceField(
        choices=[("ps", "Parameter servers"), ("ring", "Ring-AllReduce")],
        label="Gradient exchange",
        help_text="A ring needs no parameter servers.",
    )
    reduce_step_s = forms.FloatField(
        required=False,
        min_value=0,
        label="Reduce time",
        help_text="For a ring only: seconds for each mini-batch; empty for 0.",
    )
    weight = forms.FloatField(
        initial=1,
        help_text="Priority: the delay of a job with twice the weight counts twice. Jobs do not pay.",
        widget=forms.NumberInput(attrs={"min": LEAST_WEIGHT}),
    )
    value = forms.FloatField(min_value=0, initial=100, help_text="Value of completing the job, in money.")
    form = forms.ChoiceField(choices=FORMS, initial="linear", label="Value over time")
    deadline_h = forms.FloatField(required=False, min_value=0, initial=24, label="Deadline", help_text=AFTER_ARRIVAL)
    zero_at_h = forms.FloatField(
        required=False, min_value=0, initial=72, label="Value is 0 after", help_text=AFTER_ARRIVAL
    )
    midpoint_h = forms.FloatField(
        required=False, min_value=0, initial=24, label="Half the value after", help_text=AFTER_ARRIVAL
    )
    steepness_per_h = forms.FloatField(
        required=False,
        min_value=0,
        initial=0.5,
        label="Steepness",
        help_text="Per hour: 0 for a value that never falls, 1 for one that falls within hours.",
    )
    points = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        initial="0 1\n24 0.5\n72 0",
        help_text="One point a line: hours after arrival, when the next slot begins, and the share of the value left (1"
        " to 0, never rising).",
    )
    standing = forms.BooleanField(
        required=False,
        help_text="If the bid is rejected for its price or for lack of room, it is tried again when slots begin, at the"
        " prices posted then; where bids compete, in competition with the other bids that stand. You can withdraw it at"
        " any time.",
    )
    start_after_h = forms.FloatField(
        required=False, min_value=0, label="Earliest start", help_text=f"{AFTER_ARRIVAL[:-1]}; empty for at once."
    )
    standing_until_h = forms.FloatField(
        required=False,
        min_value=0,
        label="Keep trying for",
    )
    chunks = forms.IntegerField(
        required=False, min_value=1, help_text="Number of data chunks; empty for the model's number."
    )
    minibatches = forms.IntegerField(
        required=False, min_value=1, help_text="Mini-batches in each chunk; empty for the model's number."
    )
    gradient_mb = forms.FloatField(
        required=False, min_value=0, label="Gradient size", help_text="MB; empty for the model's size."
    )
    chunk_mb = forms.FloatField(
        required=False,
        min_value=0,
        label="Chunk size",
        help_text="MB that each chunk takes on its server until the job is complete; empty for 0.",
    )
    more = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label="More keys",
        help_text='JSON as in the API, such as {"upload_delay_s": {"edge-0": 60}}.',
    )

    def __init__(self, *args: Any, cluster: Cluster, bidder: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        policy = policy_in_force(cluster)
        longest = longest_stand(policy.name)
        self._value_key = VALUE_KEYS[policy.objective]
        self._stands_by_default = cluster.standing_by_default
        for name in UTILITY_NAMES if self._value_key == "weight" else ("weight",):
            del self.fields[name]
        if len(policy.architectures) == 1:
            del self.fields["architecture"], self.fields["reduce_step_s"]
        elif not MachineType.objects.filter(cluster=cluster, role=MachineRole.PS).exists():
            self.fields["architecture"] = forms.ChoiceField(
                choices=[("ring", "Ring-AllReduce")],
                label="Gradient exchange",
                help_text="This cluster has no parameter servers.",
            )
        if policy.objective is Objective.COMPLETION:
            self.fields[
                "weight"
            ].help_text = "Shown with your bid; it does not change the order of jobs. Jobs do not pay."
        if not policy.queues:
            del self.fields["chunk_mb"]
        if issubclass(policy, PostedPricePolicy):
            self.fields["standing"].initial = cluster.standing_by_default
            hours = longest * cluster.horizon_slots * cluster.slot_seconds / HOUR_S
            self.fields["standing"].label = f"Keep trying until it is worth nothing, for {hours:.4g} hours at most"
            self.fields["standing_until_h"].help_text = f"{AFTER_ARRIVAL[:-1]}; empty for {hours:.4g}, the most."
        else:
            del self.fields["standing"], self.fields["standing_until_h"]
        programs = open_names(cluster, bidder)
        if programs:
            choices = [("", "none: nothing is run"), *((name, name) for name in programs)]
            self.fields["program"] = forms.ChoiceField(
                choices=choices, required=False, help_text=self.fields["program"].help_text
            )
        else:
            for name in PROGRAM_NAMES:
                del self.fields[name]
        names = list(ModelProfile.objects.filter(cluster=cluster).values_list("name", flat=True))
        self.fields["model"] = forms.ChoiceField(
            choices=[*((name, name) for name in names), ("", "none: say everything below")],
            initial=names[0] if names else "",
            required=False,
            help_text="Sets gradient size, data and step times.",
        )

    @property
    def opens_more(self) -> bool:
        """Whether the section *More* is shown open: one of its fields has an error or is filled in."""
        names = list(self.fields)
        return any(self[name].errors or self[name].value() for name in names[names.index("start_after_h") :])

    def clean_points(self) -> list[list[float]]:
        """Read lines of two numbers, and convert hours to seconds."""
        rows = [line.replace(",", " ").split() for line in self.cleaned_data["points"].splitlines() if line.strip()]
        try:
            pairs = [(float(hours), float(share)) for hours, share in rows]
        except ValueError:
            raise forms.ValidationError(
                f"Expected two numbers on each line, such as 24 0.5, got {shown(self.cleaned_data['points'])}."
            ) from None
        return [[_in_unit_of_body(hours, HOUR_S), share] for hours, share in pairs]

    def clean_more(self) -> Json:
        """Read an object whose keys are not fields of the form."""
        text = self.cleaned_data["more"].strip()
        try:
            more = read_json(text) if text else {}
        except ValueError as error:
            raise forms.ValidationError(f"Expected JSON, got an invalid document: {error}") from None
        if not isinstance(more, dict):
            raise forms.ValidationError(f"Expected an object, such as {{}}, got {shown(more)}.")
        covered = set(COVERED) if "chunk_mb" in self.fields else set(COVERED) - {"chunk_mb"}
        if self.cleaned_data.get("program"):
            covered.add("program")
        taken = sorted(set(more) & covered)
        if taken:
            raise forms.ValidationError(f"Expected keys without a field of the form, got {', '.join(taken)}.")
        return more

    def clean(self) -> dict[str, Any]:
        """Refuse what is stated for a program if none is chosen: the bid would run nothing."""
        super().clean()
        stated = [name for name in PROGRAM_NAMES[1:] if self.cleaned_data.get(name)]
        if stated and self.cleaned_data.get("program") == "":
            self.add_error("program", f"Expected a program, since {' and '.join(stated)} are stated, got none.")
        return self.cleaned_data

    def body(self) -> Json:
        """Return the body of the bid for the API."""
        data = self.cleaned_data
        body: Json = {key: data[key] for key in ("label", "model", "epochs") if data[key]}
        numbers = ("chunks", "minibatches", "gradient_mb", "chunk_mb")
        body |= {key: data[key] for key in numbers if data.get(key) is not None}
        if data["start_after_h"]:
            body["start_after_s"] = _in_unit_of_body(data["start_after_h"], HOUR_S)
        if "architecture" in data:
            body["architecture"] = data["architecture"]
            if data["architecture"] == "ring" and data["reduce_step_s"] is not None:
                body["reduce_step_s"] = data["reduce_step_s"]
        if data.get("program"):
            program = {"name": data["program"], **{key: data[key] for key in PROGRAM_NAMES[1:]}}
            body["program"] = {key: value for key, value in program.items() if value not in ([], None)}
        if "standing" in data:
            if data["standing"] or self._stands_by_default:
                body["standing"] = data["standing"]
            if data["standing"] and data["standing_until_h"] is not None:
                body["standing_until_s"] = _in_unit_of_body(data["standing_until_h"], HOUR_S)
        return {
            **body,
            self._value_key: data["weight"] if self._value_key == "weight" else self._utility(),
            **data["more"],
        }

    def _utility(self) -> Json:
        data = self.cleaned_data
        utility: Json = {"form": data["form"], "value": data["value"]}
        for key in UTILITIES[data["form"]]().get_fields():
            if key in utility:
                continue
            if key == "points":
                utility[key] = data["points"]
            elif data[FIELD_OF[f"utility.{key}"]] is not None:
                utility[key] = _in_unit_of_body(data[FIELD_OF[f"utility.{key}"]], UNITS[key])
        return utility

    def blame(self, error: InvalidField) -> None:
        """Show each error that the market found at its field, in the unit of that field."""
        for one in error.all_wrong:
            field, problem = one.field, _in_typed_unit(one)
            whole = field.partition("[")[0]
            name = "points" if whole == "utility.points" else FIELD_OF.get(whole, whole.partition(".")[0])
            if name == "points" and field != whole:
                problem = f"Point {int(field[len(whole) + 1 :].partition(']')[0]) + 1}: {problem}"
            if name in self.fields:
                self.add_error(name, problem)
            else:
                place = "more" if name in ("worker_step_s", "ps_step_s", "upload_delay_s", "program") else None
                self.add_error(place, f"{field}: {problem}" if field else problem)


def _in_unit_of_body(typed: float, unit: float) -> float:
    """Return a number of the form in the unit of a body.

    Thirteen digits hide the rounding errors of both conversions: 30 s is shown as 0.00833333333333333 hours, and is
    30 s again. A deadline a trillionth of a second earlier would be a slot earlier.
    """
    return float(f"{typed * unit:.13g}")


def _as_typed(number: float, unit: float) -> float:
    """Return a number of a body in the unit of the form, with as many digits as bring it back."""
    return float(f"{number / unit:.15g}")


def _in_typed_unit(error: InvalidField) -> str:
    """Return the problem as text; limits are converted from seconds to the unit of the field."""
    field = error.field
    elapsed = field.startswith("utility.points[") and field.endswith("][0]")
    unit = HOUR_S if elapsed else TYPED_IN.get(field)
    if not isinstance(error, OutOfRange) or unit is None:
        return error.problem
    words = "hours" if unit > 1 else "per hour"
    bound = error.limit / unit
    if error.above:
        return f"Expected at most {plain(math.floor(bound))} {words}."
    return f"Expected at least {plain(float(f'{bound:.3g}'))} {words}."


def initial_of(body: Json, cluster: Cluster, bidder: User | None = None) -> dict[str, Any]:
    """Return the form's initial data for a bid that was submitted before.

    A program that new bids may not name stays among the other keys, so that the market refuses it by name.
    """
    utility = body.get("utility", {})
    shown: dict[str, Any] = {key: body[key] for key in COVERED if key in body and key != "utility"}
    shown["model"] = body.get("model", "")
    for key in ("start_after_s", "standing_until_s"):
        if key in shown:
            shown[FIELD_OF[key]] = _as_typed(shown.pop(key), HOUR_S)
    shown |= {key: utility[key] for key in ("form", "value") if key in utility}
    for key, unit in UNITS.items():
        if key in utility:
            shown[FIELD_OF[f"utility.{key}"]] = _as_typed(utility[key], unit)
    if "points" in utility:
        shown["points"] = "\n".join(
            f"{every_digit(_as_typed(elapsed, HOUR_S))} {every_digit(share)}" for elapsed, share in utility["points"]
        )
    rest = {key: value for key, value in body.items() if key not in COVERED}
    program = rest.get("program")
    if program is not None and program["name"] in open_names(cluster, bidder):
        del rest["program"]
        shown |= {"program": program["name"], "arguments": shlex.join(program.get("arguments", ()))}
        shown |= {key: program.get(key) for key in ("steps", "continues")}
    if rest:
        shown["more"] = json.dumps(rest, indent=1)
    return shown
