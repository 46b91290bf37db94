"""The training of a bid: the part of its page that changes, its loss, and the logs of its processes."""

import re
from typing import Final

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render

from accounts.rights import operates, rights_of
from auctions.engine.jobs import complete_job
from auctions.models import Bid, Market
from execution import logs
from execution.engines.files import Logs
from execution.models import Process, ProcessState, Progress
from execution.places import engine_root
from frontend.access import action_view, bid_numbered, page_view, viewer_of
from frontend.figures import loss as losses
from frontend.presenters import trainings
from frontend.views.responses import (
    csv_response,
    figure_response,
    part_response,
    say_done,
    unless_tagged,
    version_response,
)

LONGEST_SEARCH: Final = 200


@page_view
def part(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the part of a bid's page that shows its training."""
    market, bid = bid_numbered(request, name, number)
    chosen, viewer = request.GET.get("generation", ""), viewer_of(request)
    return part_response(
        request,
        (trainings.mark(bid), operates(viewer, market.cluster)),
        "frontend/_training.html",
        lambda: trainings.context(market, bid, chosen, viewer),
    )


@page_view
def version(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the tag of the training, by which open pages see whether it changed."""
    _, bid = bid_numbered(request, name, number)
    return version_response(request, (trainings.mark(bid),))


@page_view
def loss(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the loss by step as Plotly's JSON."""
    _, bid = bid_numbered(request, name, number)
    return unless_tagged(request, (trainings.mark(bid),), lambda: figure_response(losses.figure(_reported(bid))))


@page_view
def loss_csv(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return all reported steps as CSV."""
    _, bid = bid_numbered(request, name, number)
    return csv_response(losses.table(_reported(bid)), f"{name}-bid-{number}-loss.csv")


@action_view
def complete(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Complete a running job early; for operators."""
    if not rights_of(viewer_of(request)).operates(name):
        raise PermissionDenied
    _, bid = bid_numbered(request, name, number)

    def act() -> str:
        complete_job(bid)
        return "The job is complete; its remaining slots are free."

    say_done(request, act)
    return redirect("bid", name=name, number=number)


@page_view
def log_page(request: HttpRequest, name: str, number: int, key: str) -> HttpResponse:
    """Show the newest lines of a process's log, those before a byte, or those that contain a text."""
    market, bid, process = process_of(request, name, number, key)
    word, until = request.GET.get("search", "")[:LONGEST_SEARCH], offset_of(request, "until")
    only = bool(word) and "only" in request.GET
    shown = logs.part_before(logs_of(market), key, until)
    text = shown.text + shown.unfinished
    lines, more = logs.found(logs_of(market), key, word) if only else (text.split("\n"), False)
    context = {
        "market": market,
        "bid": bid,
        "process": process,
        "part": shown,
        "lines": [_pieces(line, word) for line in lines] if word else [],
        "word": word,
        "only": only,
        "more": more,
        "most": logs.MOST_FOUND,
        "follows": not word and until is None,
    }
    return render(request, "frontend/log.html", context)


@page_view
def log_lines(request: HttpRequest, name: str, number: int, key: str) -> HttpResponse:
    """Return the lines from a byte on as JSON, for open pages."""
    market, _, process = process_of(request, name, number, key)
    over = process.state in (ProcessState.EXITED, ProcessState.LOST)
    shown = logs.part_from(logs_of(market), key, offset_of(request, "offset") or 0, is_over=over)
    return JsonResponse({**vars(shown), "over": over})


@page_view
def log_text(request: HttpRequest, name: str, number: int, key: str) -> HttpResponse:
    """Return the log as it was written, for download; as much as the cluster keeps."""
    market, _, process = process_of(request, name, number, key)
    answer = HttpResponse(logs.blocks(logs_of(market), key), content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}-bid-{number}-{process.key}.txt"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


def process_of(request: HttpRequest, name: str, number: int, key: str) -> tuple[Market, Bid, Process]:
    """Return a process of a bid that the viewer may see; 404 for any other."""
    market, bid = bid_numbered(request, name, number)
    rows = Process.objects.select_related("generation", "server").filter(generation__training__bid=bid)
    return market, bid, get_object_or_404(rows, key=key)


def logs_of(market: Market) -> Logs:
    """Return the output of the processes of a cluster."""
    return Logs(engine_root(market.cluster.name))


def offset_of(request: HttpRequest, name: str) -> int | None:
    """Return a number of bytes in the address; None if there is none."""
    text = request.GET.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 18):
        raise Http404
    return int(text)


def _pieces(line: str, word: str) -> list[tuple[str, bool]]:
    """Return the pieces of a line, and whether each is the text that was searched for."""
    return [(one, i % 2 == 1) for i, one in enumerate(re.split(f"({re.escape(word)})", line, flags=re.IGNORECASE))]


def _reported(bid: Bid) -> list[losses.Reported]:
    rows = Progress.objects.filter(generation__training__bid=bid).order_by("generation__number", "step")
    columns = rows.values_list("generation__number", "step", "loss", "seconds", "at")
    return [
        losses.Reported(generation, step, loss, seconds, f"{at:%Y-%m-%d %H:%M:%S}")
        for generation, step, loss, seconds, at in columns
    ]
