"""The form that runs a plan: on which cluster's machine, how long a slot is, and how many batches."""

from django import forms
from django.contrib.auth.models import User

from accounts.rights import sees
from frontend.forms.base import PageForm
from scheduling.model.types import Json
from studies.models import LONGEST_SLOT_S, MOST_BATCHES, Plan
from studies.split_learning.runs.requests import BATCHES, LEAST_SLOT_S, SLOT_S, PlanRunRequest, open_clusters


class PlanRunForm(PageForm):
    """The request of a run."""

    cluster = forms.ChoiceField(help_text="Clusters whose operators let users run plans on their machine.")
    slot_s = forms.FloatField(
        min_value=LEAST_SLOT_S,
        max_value=LONGEST_SLOT_S,
        initial=SLOT_S,
        label="Slot",
        help_text="Seconds that a slot takes in this run. Below 0.01 s, what computers do beside it shows.",
    )
    batches = forms.IntegerField(min_value=1, max_value=MOST_BATCHES, initial=BATCHES)

    def __init__(self, data: object = None, *, plan: Plan, viewer: User) -> None:
        super().__init__(data, initial={"cluster": plan.cluster.name if plan.cluster else None})  # type: ignore[arg-type]
        found = [(one.name, one.title) for one in open_clusters() if sees(viewer, one.name)]
        self.fields["cluster"].choices = found  # type: ignore[attr-defined]

    def run_request(self) -> PlanRunRequest:
        """Return the request of the form; raises InvalidField."""
        data: Json = self.cleaned_data
        return PlanRunRequest.from_json({name: data[name] for name in ("cluster", "slot_s", "batches")})
