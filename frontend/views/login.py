"""The page on which people log in."""

from typing import Any

from django.conf import settings
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from accounts import single_sign_on
from auctions.readings.computation_limits import PASSWORDS
from cluster.addresses import address_of
from frontend.views.responses import too_often


class Login(LoginView):
    """Django's login page. Passwords from one address are checked one at a time, with a limit for each minute."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """Say how one can log in, whether passwords are reset by e-mail, and whether a form was refused before."""
        said = {
            "provider": settings.OIDC_NAME if single_sign_on.is_on() else "",
            "has_passwords": settings.PASSWORD_LOGINS,
            "has_email": bool(settings.EMAIL_HOST),
            "unsent": "unsent" in self.request.GET,
        }
        return {**super().get_context_data(**kwargs), **said}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Log in, or show the error."""
        if not settings.PASSWORD_LOGINS:
            raise PermissionDenied
        refusal = too_often(request, "logins")
        if refusal is not None:
            return refusal
        with PASSWORDS.turn(address_of(request)):
            return super().post(request, *args, **kwargs)
