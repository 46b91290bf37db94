"""Programs that bids may name: the list, the form that brings one, and the end of one."""

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from accounts.rights import operates
from auctions.models import Market
from execution import programs
from execution.models import Execution
from frontend.access import action_view, form_view, market_named, viewer_of
from frontend.forms.program import ProgramForm
from frontend.presenters.listing import listing
from frontend.views.responses import say_done


@form_view
def program_list(request: HttpRequest, name: str) -> HttpResponse:
    """List the programs that the viewer may see, newest first; after one was brought, show the list again."""
    market, viewer = _executing(request, name), viewer_of(request)
    sent = (request.POST, request.FILES) if request.method == "POST" else ()
    form = ProgramForm(*sent, for_all=operates(viewer, market.cluster))
    if form.store(lambda: programs.create(market.cluster, viewer, form.new())) is not None:
        return redirect("programs", name=name)
    context = {
        "market": market,
        "form": form,
        "refusal": programs.refusal(market.cluster, viewer),
        **listing(request, programs.visible(market.cluster, viewer)),
    }
    return render(request, "frontend/programs.html", context, status=422 if form.is_bound else 200)


@action_view
def close(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Close a program."""
    market, viewer = _executing(request, name), viewer_of(request)
    program = get_object_or_404(programs.visible(market.cluster, viewer), pk=number)
    if not programs.may_close(program, viewer):
        raise PermissionDenied

    def act() -> str:
        programs.close(program)
        return f"New bids may not name {program.name} any more."

    say_done(request, act)
    return redirect("programs", name=name)


def _executing(request: HttpRequest, name: str) -> Market:
    market = market_named(request, name)
    if not Execution.objects.filter(cluster=market.cluster).exists():
        raise Http404
    return market
