"""The admin of accounts."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from accounts.models import Token


@admin.register(Token)
class TokenAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Tokens of all users, without their texts, which nobody can read. Deleting one ends it."""

    list_display = ["user", "name", "hint", "scope", "cluster", "created_at", "expires_at", "last_used_at"]
    list_display_links = None
    list_filter = ["scope", "cluster"]
    list_select_related = ["user", "cluster"]
    search_fields = ["user__username", "name", "hint"]
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse to add."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to change."""
        return False
