"""The form that issues a token."""

from typing import Any

from django import forms
from django.contrib.auth.models import User

from accounts.models import LONGEST_NAME, Scope
from accounts.rights import visible_clusters
from accounts.tokens import LONGEST_DAYS, NewToken
from cluster.models import Cluster
from frontend.forms.base import LineField, PageForm


class TokenForm(PageForm):
    """A token of one's own."""

    name = LineField(max_length=LONGEST_NAME, help_text="Name by which you know it, such as nightly script.")
    scope = forms.ChoiceField(choices=Scope.choices, initial=Scope.BID)
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(),
        to_field_name="name",
        required=False,
        empty_label="All clusters",
        help_text="A token for one cluster can do nothing elsewhere.",
    )
    expires_in_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=LONGEST_DAYS,
        initial=90,
        label="Days until it ends",
        help_text="Empty: without end.",
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        found = visible_clusters(user).order_by("name")
        self.fields["cluster"].queryset = found  # type: ignore[attr-defined]

    def new(self) -> NewToken:
        """Return the token that was stated."""
        return NewToken(**self.cleaned_data)
