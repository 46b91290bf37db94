"""A user's own tokens: the list, the form that issues one, and the end or replacement of one."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache

from accounts import tokens
from accounts.errors import AccountsError
from accounts.tokens import Issued
from cluster import clock
from frontend.access import action_view, form_view, viewer_of
from frontend.forms.token import TokenForm
from frontend.presenters.listing import listing
from frontend.views.responses import say_done, say_refused


@never_cache
@form_view
def token_list(request: HttpRequest) -> HttpResponse:
    """List the viewer's tokens, newest first; after one was issued, show its text, this once."""
    viewer = viewer_of(request)
    form = TokenForm(request.POST if request.method == "POST" else None, user=viewer)
    issued = form.store(lambda: tokens.issue(viewer, form.new()))
    return _page(
        request, TokenForm(user=viewer) if issued else form, issued, status=422 if form.is_bound and not issued else 200
    )


@never_cache
@action_view
def rotate(request: HttpRequest, number: int) -> HttpResponse:
    """Replace a token, and show the text of the new one, this once."""
    token = get_object_or_404(tokens.of_user(viewer_of(request)), pk=number)
    try:
        return _page(request, TokenForm(user=viewer_of(request)), tokens.rotate(token))
    except AccountsError as error:
        say_refused(request, error)
        return redirect("tokens")


@action_view
def end(request: HttpRequest, number: int) -> HttpResponse:
    """End a token."""
    token = get_object_or_404(tokens.of_user(viewer_of(request)), pk=number)

    def act() -> str:
        tokens.end(token)
        return f"The token {token.name} is not accepted any more."

    say_done(request, act)
    return redirect("tokens")


def _page(request: HttpRequest, form: TokenForm, issued: Issued | None, *, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "issued": issued,
        "now": clock.now(),
        **listing(request, tokens.of_user(viewer_of(request))),
    }
    return render(request, "frontend/tokens.html", context, status=status)
