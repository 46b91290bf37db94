"""The form that asks for a plan again: who dropped out, who is slower, which helper is gone, and more as JSON."""

from typing import Any, Final

from django import forms

from frontend.forms.base import PageForm
from scheduling.instances.fields import parse_document
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import shown
from studies.models import MOST_SECONDS, Plan
from studies.split_learning.plans import readings
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.schemas.request import LEAST_SECONDS, LONGEST_LABEL

COVERED: Final = ("drop", "gone", "slower")
MOST_LINES: Final = 6


class ReplanForm(PageForm):
    """Changes since a plan was made; names and numbers are checked when changes are read."""

    within = "changes."
    field_order = ("label", "drop", "gone", "slower", "more", "seconds")
    label = forms.CharField(required=False, max_length=LONGEST_LABEL, help_text="For you to find it again.")
    slower = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        label="Slower clients",
        help_text="A line each: the client, and how many times as long it and its link take, such as: tablet 1.5",
    )
    more = forms.CharField(
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        label="More changes",
        help_text='JSON as in the API, such as {"join": [{"name": "new", "like": "tablet"}],'
        ' "slower_helpers": {"vm": 1.2}}; or a whole instance, and nothing above.',
    )
    seconds = forms.FloatField(
        min_value=LEAST_SECONDS,
        max_value=MOST_SECONDS,
        label="Budget",
        help_text="Seconds, at most, to find how much shorter a plan from scratch may be.",
    )

    def __init__(self, data: Any = None, *, plan: Plan) -> None:
        super().__init__(data, initial={"label": plan.label, "seconds": plan.seconds})
        self._plan = plan
        helpers, clients = readings.names(plan)
        self.fields["drop"] = _several(clients, "Clients that dropped out", "None, one or several.")
        self.fields["gone"] = _several(helpers, "Helpers that are gone", "Their clients move to others.")
        self.order_fields(self.field_order)

    def clean_slower(self) -> Json:
        """Factors by client, as they were typed; each wrong line is named."""
        found, wrong = Json(), list[str]()
        for line in filter(None, map(str.strip, self.cleaned_data["slower"].splitlines())):
            name, _, factor = line.rpartition(" ")
            name = name.strip()
            if not name:
                wrong.append(f"Expected a client and a factor on every line, got {shown(line)}.")
            elif name in found:
                wrong.append(f"Expected each client on one line, got {shown(name)} again: {shown(line)}.")
            else:
                found[name] = factor
        if wrong:
            raise forms.ValidationError(wrong)
        return found

    def clean_more(self) -> Json:
        """An object of changes the form has no field for, or an instance."""
        text = self.cleaned_data["more"].strip()
        if "\0" in text:
            raise forms.ValidationError("Expected text without NUL, got one.")
        try:
            more = parse_document(text) if text else {}
        except InvalidField as error:
            raise forms.ValidationError(str(error)) from None
        if not isinstance(more, dict):
            raise forms.ValidationError(f"Expected an object, such as {{}}, got {shown(more)}.")
        taken = sorted(set(more) & set(COVERED))
        if taken:
            raise forms.ValidationError(f"Expected keys without a field of the form, got {', '.join(taken)}.")
        return more

    def plan_request(self) -> PlanRequest:
        """Return the request of the form; raises InvalidField."""
        data = self.cleaned_data
        body: Json = {name: data[name] for name in ("label", "seconds")}
        changes = {name: data[name] for name in COVERED if data[name]}
        more = data["more"]
        if "instance" in more or "clients" in more:
            if changes:
                raise InvalidField("more", "expected no changes above with a whole instance, got some")
            return PlanRequest.to_replan(self._plan, {**body, "instance": more.get("instance", more)})
        return PlanRequest.to_replan(self._plan, {**body, "changes": {**changes, **more}})

    def elsewhere(self) -> str | None:
        """Return the field of further changes, if it says anything."""
        return "more" if self.cleaned_data["more"] else None


def _several(names: list[str], label: str, text: str) -> forms.MultipleChoiceField:
    widget = forms.SelectMultiple(attrs={"size": min(MOST_LINES, max(2, len(names)))})
    return forms.MultipleChoiceField(
        choices=[(name, name) for name in names], required=False, widget=widget, label=label, help_text=text
    )
