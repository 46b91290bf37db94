"""The form of an experiment: a trace or a generator, policies with their parameters, seeds."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from django import forms
from django.contrib.auth.models import User
from django.db.models import QuerySet

from accounts.rights import visible_clusters
from auctions.policy_form import PolicyForm
from cluster.traces.formats import formats_of
from frontend.forms.base import DescribedField, GoesWith, LineField, PageForm, TextFileField
from scheduling.model.errors import InvalidField
from scheduling.model.json_text import read_json
from scheduling.model.parameters import read_pairs
from scheduling.model.types import Json
from scheduling.model.validation import MOST_NAMED, shown
from scheduling.registry import POLICIES
from studies.experiments.request import LARGEST_SEED, LONGEST_LABEL, MOST_SEEDS, ExperimentParts
from studies.experiments.traced import FILES
from studies.models import Trace
from studies.workloads.generated.generators import GENERATORS

READY_MADE: Final[Json] = {
    "label": "Four policies on a paper's edge servers",
    "workloads": [{"generator": "dps", "setting": GENERATORS["dps"].modest}],
    "policies": [
        {"name": "dps"},
        {"name": "dps", "parameters": {"price": "paper"}},
        {"name": "fifo", "parameters": {"blocking": False}},
        {"name": "srtf"},
    ],
    "seeds": [1, 2, 3],
}
"""The experiment that an empty page offers: it takes seconds, and needs no upload."""
CHOSEN: Final = ("dps", "fifo", "srtf", "tiresias")
"""Policies that are ticked to begin with: they run on servers of any kind."""
OF_TRACES: Final = ("gpus", "slot_s", "horizon", "jobs", "apart", "ring", "elastic", "reference", "batch")
FIELDS_OF_TRACES: Final = (*OF_TRACES, *FILES, "cluster")
FIELDS_OF_GENERATORS: Final = ("setting",)


@dataclass(frozen=True)
class PolicyChoice:
    """A policy to tick, with its parameters."""

    name: str
    title: str
    ticked: bool
    form: PolicyForm


class ExperimentForm(PageForm):
    """All but the parameters of policies; the whole is checked where it is read."""

    label = LineField(required=False, max_length=LONGEST_LABEL, help_text="For you to find it again.")
    workload = forms.ChoiceField(help_text="A trace you uploaded, or servers and jobs drawn by a paper's settings.")
    gpus = forms.IntegerField(
        required=False,
        min_value=1,
        initial=160,
        label="GPUs",
        help_text="Trace: number of GPUs, 8 a server. Or choose a cluster, or machines.",
    )
    cluster = forms.ChoiceField(
        required=False, help_text="Trace: use the servers, slots and horizon of this cluster, as they are now."
    )
    machines = forms.ChoiceField(required=False, help_text="Trace: use the servers that this file lists.")
    jobs = forms.IntegerField(
        required=False, min_value=1, label="Only the first jobs", help_text="Trace: number of rows to read; empty: all."
    )
    slot_s = forms.IntegerField(
        required=False, min_value=1, label="Slot", help_text="Trace: seconds of a slot; empty: 600, or the cluster's."
    )
    horizon = forms.IntegerField(
        required=False,
        min_value=1,
        help_text="Trace: slots that can be planned; empty: twice the longest run, or the cluster's.",
    )
    apart = forms.BooleanField(
        required=False,
        label="Parameter servers apart",
        help_text="Trace with GPUs: separate servers for parameter servers, as OASiS requires.",
    )
    ring = forms.BooleanField(
        required=False, label="Rings", help_text="Trace: jobs exchange gradients in rings, without parameter servers."
    )
    elastic = forms.BooleanField(required=False, help_text="Trace: jobs can use twice the GPUs they had.")
    reference = forms.CharField(
        required=False,
        max_length=40,
        label="Reference GPU",
        help_text="Trace with throughputs: GPU that stands for GPUs not measured; empty: v100.",
    )
    step_times = forms.ChoiceField(
        required=False,
        help_text="Trace whose jobs state none: file with Sia's step times or Gavel's throughputs.",
    )
    batch = forms.IntegerField(
        required=False,
        min_value=1,
        help_text="Sia's step times: samples on each GPU; empty: the most that were measured.",
    )
    quotas = forms.ChoiceField(
        required=False, help_text="Trace without tenants: draw each job's tenant from this quota file."
    )
    setting = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        help_text='Generator: JSON, such as {"jobs": 60, "servers": 10}; empty: a modest size.',
    )
    seeds = forms.CharField(
        initial="1-3",
        help_text="Seeds of everything that is drawn: values, targets, tenants. For example 1-5, or 1, 4, 9.",
    )
    bound = forms.BooleanField(
        required=False,
        initial=True,
        label="Upper bound",
        help_text="Compute the upper bound on welfare for each workload and seed.",
    )
    standing = forms.BooleanField(
        required=False,
        initial=True,
        label="Rejected bids stand",
        help_text="Under policies with posted prices, rejected bids are tried again, as in live markets. Otherwise"
        " rejections are final.",
    )
    more = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
        label="More policies",
        help_text="One policy a line, such as: dps price=paper",
    )

    def __init__(self, *args: Any, traces: "QuerySet[Trace]", viewer: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._traces = traces
        read = [(f"trace-{trace.pk}", _choice(trace)) for trace in traces if trace.kind == "jobs"]
        drawn = [(name, f"Drawn: {one.title}") for name, one in GENERATORS.items()]
        self._choose("workload", [*read, *drawn])
        self.goes_with = {
            **dict.fromkeys(FIELDS_OF_TRACES, GoesWith("workload", [value for value, _ in read])),
            **dict.fromkeys(FIELDS_OF_GENERATORS, GoesWith("workload", [value for value, _ in drawn])),
        }
        self._choose("cluster", [("", "none"), *visible_clusters(viewer).values_list("name", "title")])
        for name, kinds in FILES.items():
            others = traces.filter(format__in=formats_of(*kinds))
            self._choose(name, [("", "none"), *((str(trace.pk), _choice(trace)) for trace in others)])
        self.policies = [self._policy(name) for name in POLICIES]

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        cast(forms.ChoiceField, self.fields[name]).choices = choices

    def _policy(self, name: str) -> PolicyChoice:
        kind = POLICIES[name]
        defaults = kind().to_json()
        ticked = f"use-{name}" in self.data if self.is_bound else name in CHOSEN
        data = self.data if self.is_bound and ticked else None
        form = PolicyForm(data, policy=name, prefix=name, initial=defaults, bound_field_class=DescribedField)
        return PolicyChoice(name, kind.title, ticked, form)

    def clean_seeds(self) -> list[int]:
        """The numbers of `1-3, 7`; each wrong part is named."""
        found, wrong = list[int](), list[str]()
        for part in self.cleaned_data["seeds"].replace(",", " ").split():
            match = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
            if match is None:
                wrong.append(f"Expected whole numbers and ranges, such as 1-3, 7, got {shown(part)}.")
                continue
            low, high = int(match[1]), int(match[2] or match[1])
            if not low <= high <= LARGEST_SEED or high - low >= MOST_SEEDS:
                wrong.append(f"Expected at most {MOST_SEEDS} numbers up to {LARGEST_SEED}, got {shown(part)}.")
            else:
                found += range(low, high + 1)
        if wrong:
            raise forms.ValidationError(wrong[:MOST_NAMED])
        return found

    def clean_setting(self) -> Json:
        """The document."""
        text = self.cleaned_data["setting"].strip()
        if not text:
            return {}
        try:
            document = read_json(text, parse_constant=str)
        except ValueError as error:
            raise forms.ValidationError(f"Expected JSON, got an invalid document: {error}") from None
        if not isinstance(document, dict):
            raise forms.ValidationError(f"Expected an object, such as {{}}, got {shown(document)}.")
        return document

    def clean_more(self) -> list[Json]:
        """Policies that are written out; each wrong line is named."""
        found, wrong = list[Json](), list[str]()
        for line in self.cleaned_data["more"].splitlines():
            try:
                found += [_written(line)] if line.strip() else []
            except InvalidField as error:
                wrong += [str(one) for one in error.all_wrong]
        if wrong:
            raise forms.ValidationError(wrong)
        return found

    def clean(self) -> Json:
        """Parameters of the policies that are ticked, too."""
        data: Json = super().clean() or {}
        for choice in self.policies:
            if choice.ticked and not choice.form.is_valid():
                self.add_error(None, f"{choice.name}: a parameter is wrong.")
        if not any(choice.ticked for choice in self.policies) and not data.get("more"):
            self.add_error(None, "Choose at least one policy.")
        for name in self._of_the_other_kind(data):
            kind = "drawn" if data["workload"] in GENERATORS else "read from a trace"
            self.add_error(name, f"Expected none, as the jobs are {kind}, got {shown(data[name])}.")
        if self.errors:
            self._check_other_parts(data)
        return data

    def _check_other_parts(self, data: Json) -> None:
        """Show what is wrong with parts of the request whose fields are right, while others are not.

        Parts whose fields are wrong are those of the ready-made experiment here.
        """
        parts = READY_MADE | {name: data[name] for name in ("label", "seeds") if name in data}
        if not {"workload", "setting", "cluster", *OF_TRACES, *FILES} & set(self.errors):
            parts["workloads"] = [self._workload()]
        if chosen := list(self._chosen()):
            parts["policies"] = chosen
        try:
            ExperimentParts.read(parts, traces=self._traces)
        except InvalidField as error:
            self.blame(error)

    def _of_the_other_kind(self, data: Json) -> list[str]:
        """Return the fields that are filled in though they are of traces and jobs are drawn, or the other way round."""
        if "workload" not in data:
            return []
        names = FIELDS_OF_TRACES if data["workload"] in GENERATORS else FIELDS_OF_GENERATORS
        given = (name for name in names if data.get(name) not in (None, False, "", {}))
        return [name for name in given if not self._is_filled_in(name)]

    def _is_filled_in(self, name: str) -> bool:
        """Return whether a field has the value that the page begins with, so that nobody may have typed it."""
        initial = self.fields[name].initial
        return initial is not None and self.cleaned_data.get(name) == initial

    def body(self) -> Json:
        """Return the body of the request."""
        data = self.cleaned_data
        return {
            "label": data["label"],
            "workloads": [self._workload()],
            "policies": list(self._chosen()),
            "seeds": data["seeds"],
            "bound": data["bound"],
            "standing": data["standing"],
        }

    def blame(self, error: InvalidField) -> None:
        """Show each error beside its field, or above all fields."""
        for one in error.all_wrong:
            name = one.field.removeprefix("workloads[0].").partition(".")[0].partition("[")[0]
            self.add_error(name if name in self.fields else None, str(one))

    def _workload(self) -> Json:
        data, name = self.cleaned_data, self.cleaned_data["workload"]
        if name in GENERATORS:
            return {"generator": name, "setting": data["setting"] or GENERATORS[name].modest}
        row: Json = {"trace": int(name.removeprefix("trace-"))}
        row |= {key: data[key] for key in OF_TRACES if data[key] not in (None, False, "")}
        row |= {key: int(data[key]) for key in FILES if data[key]}
        if data["cluster"]:
            row["cluster"] = data["cluster"]
        if (data["cluster"] or data["machines"]) and self._is_filled_in("gpus"):
            row.pop("gpus")
        return row

    def _chosen(self) -> Iterator[Json]:
        for choice in self.policies:
            if choice.ticked and choice.form.is_valid():
                yield {"name": choice.name, "parameters": choice.form.cleaned_data}
        yield from self.cleaned_data.get("more", ())


def _choice(trace: Trace) -> str:
    """A trace among others."""
    return f"Trace {trace.pk}: {trace}, {f'{trace.records:,} ' if trace.kind == 'jobs' else ''}{trace.holds}"


def _written(line: str) -> Json:
    """`dps price=paper` as a request says it; raises InvalidField."""
    name, *pairs = line.split()
    return {"name": name, "parameters": read_pairs(name, pairs)}


class TraceForm(PageForm):
    """The form that uploads a trace."""

    label = LineField(required=False, max_length=LONGEST_LABEL, help_text="For you to find it again.")
    file = TextFileField(help_text="The file as its publisher distributes it; its first line says which format it has.")
    throughputs = TextFileField(
        required=False,
        help_text="Gavel's table of throughputs (JSON), for jobs that state no durations. Or upload it as a trace.",
    )

    def blame(self, error: InvalidField) -> None:
        """Show each error beside the file that it is about."""
        for one in error.all_wrong:
            if one.field == "text":
                self.add_error("file", one.problem)
            else:
                self.add_error("throughputs", str(one))
