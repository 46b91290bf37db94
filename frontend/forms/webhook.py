"""The forms of a webhook: a new one, and changes of one."""

from typing import Any

from django import forms
from django.contrib.auth.models import User

from accounts.rights import visible_clusters
from auctions.models import Webhook
from auctions.models.webhooks import LONGEST_NAME, LONGEST_URL
from auctions.webhooks.addresses import checked_url
from auctions.webhooks.hooks import LONGEST_OVERLAP_S, WebhookRequest
from auctions.webhooks.messages import TYPES
from cluster.models import Cluster
from frontend.forms.base import LineField, PageForm
from scheduling.model.errors import InvalidField


class WebhookForm(PageForm):
    """A webhook of one's own."""

    name = LineField(max_length=LONGEST_NAME, help_text="Name by which you know it, such as chat.")
    url = forms.CharField(
        max_length=LONGEST_URL,
        label="Address",
        help_text="Messages are sent there by POST: https, on a public network, such as https://example.org/hook.",
    )
    cluster = forms.ModelChoiceField(
        Cluster.objects.none(), to_field_name="name", required=False, empty_label="All clusters"
    )
    of_team = forms.BooleanField(required=False, label="Bids of your team, too")
    types = forms.MultipleChoiceField(
        choices=[(one, one) for one in TYPES],
        required=False,
        label="Events",
        help_text="None chosen: all. Ctrl or ⌘ chooses several.",
        widget=forms.SelectMultiple(attrs={"size": 5}),
    )

    def __init__(self, *args: Any, user: User, kept: int | None = None, **kwargs: Any) -> None:
        """Offer the clusters that exist for the user, and the one with the key `kept`, which the webhook has."""
        super().__init__(*args, **kwargs)
        found = visible_clusters(user) | Cluster.objects.filter(pk__in=[] if kept is None else [kept])
        self.fields["cluster"].queryset = found.order_by("name")  # type: ignore[attr-defined]

    def clean_url(self) -> str:
        """Return an address to which messages may be sent."""
        try:
            return checked_url(self.cleaned_data["url"])
        except InvalidField as error:
            raise forms.ValidationError(error.problem) from None

    def request(self) -> WebhookRequest:
        """Return the webhook that was stated."""
        given = self.cleaned_data
        return WebhookRequest(given["name"], given["url"], given["cluster"], given["of_team"], tuple(given["types"]))


class ChangeForm(WebhookForm):
    """Changes of a webhook."""

    is_on = forms.BooleanField(required=False, label="Send messages")

    @classmethod
    def of(cls, webhook: Webhook, user: User, data: Any = None) -> "ChangeForm":
        """Return the form, filled in with the webhook unless it was sent."""
        names = ("name", "url", "of_team", "types", "is_on")
        initial = {name: getattr(webhook, name) for name in names}
        initial["cluster"] = webhook.cluster.name if webhook.cluster else ""
        # Without its cluster, which may be closed to the user by now, any change would make it one for all clusters.
        return cls(data, user=user, kept=webhook.cluster_id, initial=initial)


class OverlapForm(PageForm):
    """The time for which the old secret signs, too."""

    overlap_s = forms.IntegerField(min_value=0, max_value=LONGEST_OVERLAP_S, required=False)
