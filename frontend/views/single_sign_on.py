"""Single sign-on: the way to the provider and back, to log in or to link one's account, and the end of a link."""

import logging
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from accounts import single_sign_on
from accounts.errors import AccountsError, LoginRefused
from frontend.access import action_view, page_view, viewer_of
from frontend.views.responses import say_done, say_refused, too_often

NEXT: Final = "single_sign_on_next"
"""Key of the session for the address to which the person wanted to go."""
LINKED: Final = "single_sign_on_linked"
"""Key of the session for the key of the user whose account is to be linked; a login has none."""

log = logging.getLogger(__name__)


@never_cache
@require_GET
def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider."""
    _check_is_on()
    refusal = too_often(request, "logins")
    if refusal is not None:
        return refusal
    request.session[NEXT] = request.GET.get("next", "")[:500]
    request.session.pop(LINKED, None)
    try:
        return _send(request)
    except AccountsError as error:
        return _refused(request, error, request.session.pop(NEXT))


@never_cache
@page_view
def account(request: HttpRequest) -> HttpResponse:
    """Show whether the viewer's account is linked with a person at the provider."""
    _check_is_on()
    context = {"identity": single_sign_on.identity_of(viewer_of(request)), "provider": settings.OIDC_NAME}
    return render(request, "frontend/single_sign_on.html", context)


@action_view
def link(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider, to link the viewer's account with the person who logs in there.

    By a page and not by a redirection: browsers let a form lead to this service alone (form-action of the policy of
    pages), with all redirections behind it.
    """
    _check_is_on()
    refusal = too_often(request, "logins")
    if refusal is not None:
        return refusal
    request.session[LINKED] = viewer_of(request).pk
    try:
        sent = _send(request)
    except AccountsError as error:
        say_refused(request, error)
        return redirect("sso_account")
    context = {"address": sent.headers["Location"], "provider": settings.OIDC_NAME}
    return render(request, "frontend/to_provider.html", context)


@action_view
def unlink(request: HttpRequest) -> HttpResponse:
    """End the link of the viewer's account."""
    _check_is_on()

    def act() -> str:
        single_sign_on.unlink(viewer_of(request))
        return f"Your account is not linked with {settings.OIDC_NAME} any more."

    say_done(request, act)
    return redirect("sso_account")


@never_cache
@require_GET
def come_back(request: HttpRequest) -> HttpResponse:
    """Log in the person that the provider sends back, if its answer is right and there is an account.

    If a user has asked to link an account, the person is linked with it instead.
    """
    _check_is_on()
    linked = request.session.pop(LINKED, None)
    if linked is not None:
        return _come_back_to_link(request, linked)
    wanted = str(request.session.pop(NEXT, ""))
    try:
        user = single_sign_on.account_of(single_sign_on.claims_of(request))
    except AccountsError as error:
        return _refused(request, error, wanted)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    is_here = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    # `redirect` would look for a page of this name in what has no slash. A relative address leads nowhere from here.
    is_whole = wanted.startswith(("/", "https://", "http://"))
    return HttpResponseRedirect(wanted if is_here and is_whole else settings.LOGIN_REDIRECT_URL)


def _come_back_to_link(request: HttpRequest, linked: int) -> HttpResponse:
    """Link the account of the user who has asked for it, if that user is still logged in."""
    if request.user.pk != linked:
        return _refused(request, LoginRefused("You were logged out meanwhile; nothing was linked."))

    def act() -> str:
        single_sign_on.link(viewer_of(request), single_sign_on.claims_of(request))
        return f"Your account is linked with {settings.OIDC_NAME}: you can log in with it from now on."

    say_done(request, act)
    return redirect("sso_account")


def _send(request: HttpRequest) -> HttpResponse:
    return single_sign_on.begin(request, request.build_absolute_uri(reverse("sso_return")))


def _check_is_on() -> None:
    if not single_sign_on.is_on():
        raise Http404


def _refused(request: HttpRequest, error: AccountsError, wanted: str = "") -> HttpResponse:
    log.warning("single sign-on: %s", error)
    messages.error(request, str(error))
    query = f"?{urlencode({'next': wanted})}" if wanted else ""
    return redirect(f"{reverse('login')}{query}")
