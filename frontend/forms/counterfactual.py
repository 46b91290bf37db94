"""The form of a counterfactual: a policy's parameters, and the first bid that it decides."""

from typing import Any

from django import forms
from django.http import HttpRequest

from auctions.models import PolicyVersion
from auctions.policy_form import PolicyForm
from frontend.forms.base import PageForm
from scheduling.model.errors import InvalidField
from scheduling.model.validation import LARGEST_INTEGER
from scheduling.registry import POLICIES
from studies.background.shapes import policy_of
from studies.counterfactuals.requests import CounterfactualRequest


def chosen_policy(wanted: str | None, current: PolicyVersion) -> str:
    """The policy in the address if there is one of that name, else the one in force."""
    return wanted if wanted is not None and wanted in POLICIES else current.name


class CounterfactualForm(PageForm, PolicyForm):
    """Valid if the policy accepts its parameters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        since = forms.IntegerField(
            min_value=1,
            max_value=LARGEST_INTEGER,
            initial=1,
            label="From bid number",
            help_text="Earlier bids keep their recorded decisions; 1: from the beginning.",
        )
        self.fields = {"since": since, **self.fields}

    @classmethod
    def of(cls, request: HttpRequest, *, policy: str, current: PolicyVersion) -> "CounterfactualForm":
        """Return the form as it was sent, or with initial values from the address, the policy in force, or defaults."""
        chosen = current.policy() if current.name == policy else POLICIES[policy]()
        initial: dict[str, Any] = chosen.to_json()
        asked = {key: request.GET[key] for key in (*initial, "since") if key in request.GET}
        # A checkbox takes any text for a yes.
        initial |= {key: False if value in ("false", "False") else value for key, value in asked.items()}
        # A policy without parameters sends hardly anything.
        return cls(request.POST if request.method == "POST" else None, policy=policy, initial=initial)

    def clean(self) -> dict[str, Any]:
        """Let the policy judge its parameters, without the bid's number."""
        cleaned = forms.Form.clean(self) or {}
        if not self.errors:
            try:
                self._policy(cleaned)
            except InvalidField as error:
                self.blame(error)
        return cleaned

    def submitted(self) -> CounterfactualRequest:
        """Return the checked request."""
        return CounterfactualRequest(self._policy(self.cleaned_data), since=self.cleaned_data["since"])

    def blame(self, error: InvalidField) -> None:
        """Show each error beside the field that it names, or above all fields."""
        for one in error.all_wrong:
            self.refuse(one.at(one.field.removeprefix("parameters.")))

    def _policy(self, cleaned: dict[str, Any]) -> Any:
        return policy_of(self.policy, {key: value for key, value in cleaned.items() if key != "since"})
