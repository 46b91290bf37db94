"""Parts that the admin's pages share."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows of history: they are shown and filtered, but never added, changed or deleted."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse to add."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to change."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete."""
        return False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Whether the visitor may use actions on these rows: who may only see them changes nothing."""
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")


def operator_of(request: HttpRequest) -> User | None:
    """Return the user of the request; None without a login."""
    return request.user if request.user.is_authenticated else None
