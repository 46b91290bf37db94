"""Webhooks in the admin: operators see where the messages of users are sent, and switch webhooks off."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from auctions.admin.base import ReadOnlyAdmin
from auctions.models import Webhook
from auctions.webhooks.hooks import switch_off


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    """Webhooks of all users; their messages and their secrets are for their owners."""

    list_display = ["name", "owner", "url", "cluster", "is_on", "off_reason", "failing_since", "created_at"]
    list_filter = ["is_on", "cluster"]
    list_select_related = ["owner", "cluster"]
    search_fields = ["owner__username", "name", "url"]
    exclude = ["secret", "old_secret"]
    actions = ["switch_off"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """All fields, without the secrets."""
        return [field.name for field in Webhook._meta.concrete_fields if "secret" not in field.name]

    @admin.action(description="Switch webhooks off", permissions=["act"])
    def switch_off(self, request: HttpRequest, queryset: "QuerySet[Webhook]") -> None:
        """Send nothing more; owners read that an operator did it, and may switch them on again."""
        for webhook in queryset:
            switch_off(webhook, "an operator switched it off")
        self.message_user(request, "The webhooks are off.")
