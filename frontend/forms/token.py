"""The form that issues a token."""

from django import forms

from accounts.models import LONGEST_NAME, Scope
from accounts.tokens import LONGEST_DAYS, NewToken
from cluster.models import Cluster
from frontend.forms.base import PageForm


class TokenForm(PageForm):
    """A token of one's own."""

    name = forms.CharField(max_length=LONGEST_NAME, help_text="Name by which you know it, such as nightly script.")
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

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.fields["cluster"].queryset = Cluster.objects.order_by("name")  # type: ignore[attr-defined]

    def new(self) -> NewToken:
        """Return the token that was stated."""
        return NewToken(**self.cleaned_data)
