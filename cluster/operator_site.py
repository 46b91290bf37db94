"""The admin, for operators alone."""

from typing import Any, cast

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.views.autocomplete import AutocompleteJsonView
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from cluster.operators import is_operator


class Choices(AutocompleteJsonView):
    """Rows among which a field that finds them lets choose: for all who may fill in the field.

    Django asks for the permission to see their pages. Operators have none for users, and choose the members of teams.
    """

    def has_perm(self, request: HttpRequest, obj: Any = None) -> bool:
        """Whether the visitor may add or change rows with this field, or see the pages of what is chosen."""
        row = self.source_field.model._meta
        fills_in = (f"{row.app_label}.{verb}_{row.model_name}" for verb in ("add", "change"))
        return super().has_perm(request, obj) or any(map(request.user.has_perm, fills_in))


class OperatorSite(admin.AdminSite):
    """The admin under the one rule for operators; permissions on a model may only narrow it."""

    site_header = site_title = "Shadowprice: administration"

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the visitor is an operator."""
        return is_operator(request.user)

    def autocomplete_view(self, request: HttpRequest) -> HttpResponse:
        """Return choices of a field."""
        return cast(HttpResponse, Choices.as_view(admin_site=self)(request))

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Send visitors to the one login page; 403 for those who are signed in and not operators."""
        target = request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index", current_app=self.name)
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        return redirect_to_login(target, settings.LOGIN_URL)
