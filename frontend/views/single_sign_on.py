"""Single sign-on: the way to the provider, and the way back."""

import logging
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts import single_sign_on
from accounts.errors import AccountsError
from frontend.views.responses import too_often

NEXT: Final = "single_sign_on_next"
"""Key of the session for the address to which the person wanted to go."""

log = logging.getLogger(__name__)


@never_cache
@require_GET
def begin(request: HttpRequest) -> HttpResponseBase:
    """Send the browser to the provider."""
    _check_is_on()
    refusal = too_often(request, "logins")
    if refusal is not None:
        return refusal
    request.session[NEXT] = request.GET.get("next", "")[:500]
    try:
        return single_sign_on.begin(request, request.build_absolute_uri(reverse("sso_return")))
    except AccountsError as error:
        return _refused(request, error)


@never_cache
@require_GET
def come_back(request: HttpRequest) -> HttpResponse:
    """Log in the person that the provider sends back, if its answer is right and there is an account."""
    _check_is_on()
    wanted = str(request.session.pop(NEXT, ""))
    try:
        user = single_sign_on.account_of(single_sign_on.claims_of(request))
    except AccountsError as error:
        return _refused(request, error, wanted)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    is_here = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return redirect(wanted if wanted and is_here else settings.LOGIN_REDIRECT_URL)


def _check_is_on() -> None:
    if not single_sign_on.is_on():
        raise Http404


def _refused(request: HttpRequest, error: AccountsError, wanted: str = "") -> HttpResponse:
    log.warning("single sign-on: %s", error)
    messages.error(request, str(error))
    query = f"?{urlencode({'next': wanted})}" if wanted else ""
    return redirect(f"{reverse('login')}{query}")
