"""The admin, for operators alone."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from cluster.operators import is_operator


class OperatorSite(admin.AdminSite):
    """The admin under the one rule for operators; permissions on a model may only narrow it."""

    site_header = site_title = "Shadowprice: administration"

    def has_permission(self, request: HttpRequest) -> bool:
        """Whether the visitor is an operator."""
        return is_operator(request.user)

    def login(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Send visitors to the one login page; 403 for those who are signed in and not operators."""
        target = request.GET.get(REDIRECT_FIELD_NAME) or reverse("admin:index", current_app=self.name)
        if request.user.is_authenticated and not self.has_permission(request):
            raise PermissionDenied
        return redirect_to_login(target, settings.LOGIN_URL)
