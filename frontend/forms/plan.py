"""The form that asks for a plan: an instance that is pasted, uploaded or an example; a method and a budget."""

from typing import Any, Final

from django import forms
from django.contrib.auth.models import User

from accounts.rights import visible_clusters
from frontend.forms.base import PageForm, TextFileField
from scheduling.instances.fields import parse_document
from scheduling.model.types import Json
from scheduling.split_learning.methods import METHODS
from studies.models import MOST_SECONDS
from studies.split_learning.api.examples import DESCRIBED, TINY
from studies.split_learning.plans.csv_instance import read_csv
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.schemas.request import LEAST_SECONDS, LONGEST_LABEL, SECONDS, SOURCES

EXAMPLES: Final[dict[str, tuple[str, Json]]] = {
    "tiny": ("2 helpers, 3 clients by hand", {"instance": TINY}),
    "paper": (
        "2 helpers, 10 measured devices, ResNet101",
        {"scenario": {"number": 1, "model": "resnet101", "clients": 10, "helpers": 2, "seed": 1}},
    ),
    "described": ("2 helpers, 4 devices described by hand", {"profile": DESCRIBED}),
    "mixed": (
        "5 helpers, 30 mixed devices, VGG19, little memory",
        {"scenario": {"number": 2, "model": "vgg19", "clients": 30, "helpers": 5, "seed": 1}},
    ),
}
"""Text of each choice, and the source in its request. Synthetic: links and devices are drawn from a seed."""


class PlanForm(PageForm):
    """The request of a plan; the instance itself is checked when it is read."""

    label = forms.CharField(required=False, max_length=LONGEST_LABEL, help_text="For you to find it again.")
    example = forms.ChoiceField(
        required=False,
        choices=[("", "none: paste or upload an instance"), *((key, words) for key, (words, _) in EXAMPLES.items())],
        initial="tiny",
        help_text="Synthetic instances to begin with.",
    )
    text = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false"}),
        label="Instance",
        help_text="JSON as in instance files; or a profile of devices and links, as below; or a table: helper, client,"
        " memory_gb, demand_gb, release, forward, gap, backward, tail.",
    )
    file = TextFileField(required=False, label="Or a file", help_text="The same, JSON or CSV.")
    slot_ms = forms.IntegerField(
        required=False, min_value=1, max_value=10**9, label="Slot", help_text="Of a table only: milliseconds; empty: 1."
    )
    method = forms.ChoiceField(choices=[(name, name) for name in METHODS], initial="exact")
    seconds = forms.FloatField(
        min_value=LEAST_SECONDS, max_value=MOST_SECONDS, initial=SECONDS, label="Budget", help_text="Seconds, at most."
    )
    seed = forms.IntegerField(min_value=0, max_value=10**9, initial=0, help_text="Of what the method draws.")
    cluster = forms.ChoiceField(
        required=False,
        help_text="If chosen, each helper is one of its servers, by name, and may have its memory.",
    )

    def __init__(self, *args: Any, viewer: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        found = visible_clusters(viewer).values_list("name", "title")
        self.fields["cluster"].choices = [("", "none"), *found]  # type: ignore[attr-defined]

    def clean(self) -> Json:
        """Use the pasted or uploaded instance, else the example; both together are an error."""
        data: Json = super().clean() or {}
        texts = [(data.get(name) or "").removeprefix("\ufeff").strip() for name in ("text", "file")]
        if all(texts):
            raise forms.ValidationError("Expected a pasted instance or an uploaded one, got both.")
        data["said"] = texts[0] or texts[1]
        if not data["said"] and not data.get("example") and not self.errors:
            raise forms.ValidationError("Expected a pasted or uploaded instance, or an example, got none.")
        if "\0" in data["said"]:
            raise forms.ValidationError("Expected an instance without NUL, got one.")
        return data

    def plan_request(self) -> PlanRequest:
        """Return the request of the form; raises InvalidField."""
        data = self.cleaned_data
        body: Json = {name: data[name] for name in ("label", "method", "seconds", "seed")}
        if data["cluster"]:
            body["cluster"] = data["cluster"]
        if not data["said"]:
            return PlanRequest.from_json({**body, **EXAMPLES[data["example"]][1]})
        if data["said"].startswith(("{", "[")):
            document = parse_document(data["said"])
            return PlanRequest.from_json({**body, **_source(document)})
        return PlanRequest.from_json({**body, "instance": read_csv(data["said"], slot_ms=data["slot_ms"] or 1)})

    def elsewhere(self) -> str | None:
        """Return the field that has the instance; None for an example."""
        return ("file" if self.cleaned_data.get("file") else "text") if self.cleaned_data["said"] else None


def _source(document: object) -> Json:
    """Return the document under its key of a request: its own key, or `profile` if it has a model."""
    if isinstance(document, dict):
        for name in SOURCES:
            if name in document:
                return {name: document[name]}
        if "model" in document:
            return {"profile": document}
    return {"instance": document}
