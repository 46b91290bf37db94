"""Access rules of pages. Queries contain only visible rows, so anything else answers 404."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar, cast
from urllib.parse import urlsplit

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import Resolver404, resolve, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from accounts.rights import rights_of, sees
from auctions.models import Bid, Market
from auctions.readings import visibility
from auctions.state import market_snapshot
from frontend.figures.timeline import TimeLine

View = TypeVar("View", bound=Callable[..., HttpResponse])


def page_view(view: View) -> View:
    """Let signed-in users read what the view returns."""
    return login_required(require_safe(view))


def market_view(view: View) -> View:
    """Let signed-in users read what the view returns; all its readings are of one version of the market."""
    return page_view(market_snapshot.one_version()(view))


def form_view(view: View) -> View:
    """Let signed-in users read and send a form."""
    return _sent_with_session(require_http_methods(["GET", "HEAD", "POST"])(view))


def typed_form_view(view: View) -> View:
    """Let signed-in users read and send a form; after a login it is shown again with `typed` if there was no session.

    The browser keeps what was typed: nothing that a stranger sends is stored here.
    """
    guarded = form_view(view)

    @wraps(view)
    def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.method == "POST" and not request.user.is_authenticated:
            return redirect_to_login(f"{request.path}?typed")
        return guarded(request, *args, **kwargs)

    return cast(View, answer)


def action_view(view: View) -> View:
    """Let signed-in users send a request that changes something."""
    answer = _sent_with_session(require_POST(view))
    answer.only_posts = True  # type: ignore[attr-defined]  # wrappers of the view have it, too
    return answer


def _sent_with_session(view: View) -> View:
    """Keep out who is not signed in; a login after a POST leads back to the page whose form or button was sent.

    The address of the POST itself may answer no GET.
    """
    guarded = login_required(view)

    @wraps(view)
    def answer(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        if request.method == "POST" and not request.user.is_authenticated:
            return redirect_to_login(_page_before(request), f"{reverse('login')}?unsent")
        return guarded(request, *args, **kwargs)

    return cast(View, answer)


def _page_before(request: HttpRequest) -> str:
    """Return the path of the page of this host from which a browser sends the request; the first page if unknown.

    It is also the first page if that page was the answer to a POST, as a token's new text or a form with errors, and
    its address answers no GET.
    """
    page = request.headers.get("Referer", "")
    if not url_has_allowed_host_and_scheme(page, allowed_hosts={request.get_host()}):
        return reverse("markets")
    parts = urlsplit(page)
    try:
        shows = not hasattr(resolve(parts.path).func, "only_posts")
    except Resolver404:
        shows = False
    if not shows:
        return reverse("markets")
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def viewer_of(request: HttpRequest) -> User:
    """Return the signed-in user; views that call this require one."""
    user = request.user
    if isinstance(user, AnonymousUser):
        raise Http404
    return user


def market_named(request: HttpRequest, name: str) -> Market:
    """Return the market of the cluster of this name; 404 if there is none that exists for the viewer."""
    market = market_snapshot.market_named(name) if sees(request.user, name) else None
    if market is None:
        raise Http404
    return market


def operated_market(request: HttpRequest, name: str) -> Market:
    """Return the market for its operators; 404 for any other user."""
    if not rights_of(viewer_of(request)).operates(name):
        raise Http404
    return market_named(request, name)


def bid_numbered(request: HttpRequest, name: str, number: int) -> tuple[Market, Bid]:
    """Return a market and its bid of this number; 404 if the viewer may not see both."""
    market = market_named(request, name)
    bid = visibility.bid(market, viewer_of(request), number)
    if bid is None:
        raise Http404
    return market, bid


def timeline_of(market: Market) -> TimeLine:
    """Return the market's time line, which converts slots to dates."""
    return TimeLine(epoch=market.cluster.epoch, slot_seconds=market.cluster.slot_seconds)
