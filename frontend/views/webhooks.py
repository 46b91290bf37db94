"""A user's webhooks: the list with the form that makes one, and the page of one with its deliveries."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache

from auctions.domain.errors import WrongState
from auctions.models import DeliveryStatus, Webhook
from auctions.webhooks import hooks, messages
from auctions.webhooks.hooks import Made
from cluster import clock
from frontend.access import action_view, form_view, viewer_of
from frontend.forms.webhook import ChangeForm, OverlapForm, WebhookForm
from frontend.presenters.listing import listing
from frontend.presenters.states import DELIVERY_LOOKS
from frontend.views.responses import say_done

FILTERS: Final = {"status": DeliveryStatus.values, "type": [*messages.TYPES, messages.TEST]}


@never_cache
@form_view
def webhook_list(request: HttpRequest) -> HttpResponse:
    """List the viewer's webhooks, newest first; after one was made, show its secret, this once."""
    viewer = viewer_of(request)
    form = WebhookForm(request.POST if request.method == "POST" else None, user=viewer)
    made = form.store(lambda: hooks.create(viewer, form.request()))
    context = {
        "form": WebhookForm(user=viewer) if made else form,
        "made": made,
        "webhooks": hooks.of_user(viewer),
    }
    return render(request, "frontend/webhooks.html", context, status=422 if form.is_bound and not made else 200)


@form_view
def webhook_page(request: HttpRequest, number: int) -> HttpResponse:
    """Show one webhook with its deliveries, those that the filters in the address let pass; change it."""
    webhook = _found(request, number)
    form = ChangeForm.of(webhook, viewer_of(request), request.POST if request.method == "POST" else None)
    changed = form.store(lambda: hooks.change(webhook, form.request(), is_on=form.cleaned_data["is_on"]))
    if changed is not None:
        return redirect("webhook", webhook.pk)
    return _page(request, webhook, form, status=422 if form.is_bound else 200)


@never_cache
@action_view
def rotate(request: HttpRequest, number: int) -> HttpResponse:
    """Replace the secret, and show the new one, this once."""
    webhook, form = _found(request, number), OverlapForm(request.POST)
    if not form.is_valid():
        raise Http404
    try:
        made = hooks.rotate(webhook, overlap_s=form.cleaned_data["overlap_s"] or 0)
    except WrongState as error:
        raise Http404(str(error)) from None
    return _page(request, made.webhook, ChangeForm.of(made.webhook, viewer_of(request)), made)


@action_view
def send_test(request: HttpRequest, number: int) -> HttpResponse:
    """Write a test message, which is sent after those that wait."""
    webhook = _found(request, number)

    def act() -> str:
        messages.add_test(webhook)
        return "A test message will be sent in a moment."

    say_done(request, act)
    return redirect("webhook", webhook.pk)


@action_view
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete a webhook with its deliveries."""
    webhook = _found(request, number)

    def act() -> str:
        hooks.delete(webhook)
        return f"The webhook {webhook.name} was deleted."

    say_done(request, act)
    return redirect("webhooks")


@action_view
def redeliver(request: HttpRequest, number: int, delivery: str) -> HttpResponse:
    """Send a message again."""
    webhook = _found(request, number)
    found = hooks.delivery(webhook, delivery)
    if found is None:
        raise Http404

    def act() -> str:
        hooks.redeliver(found)
        return "The message will be sent again in a moment."

    say_done(request, act)
    return redirect("webhook", webhook.pk)


def _found(request: HttpRequest, number: int) -> Webhook:
    return get_object_or_404(hooks.of_user(viewer_of(request)), pk=number)


def _page(
    request: HttpRequest, webhook: Webhook, form: ChangeForm, made: Made | None = None, *, status: int = 200
) -> HttpResponse:
    chosen = {name: request.GET.get(name, "") for name in FILTERS}
    chosen = {name: value if value in FILTERS[name] else "" for name, value in chosen.items()}
    rows = hooks.deliveries(webhook).filter(**{name: value for name, value in chosen.items() if value})
    context = {
        "webhook": webhook,
        "form": form,
        "made": made,
        "statuses": [(key.value, look.label) for key, look in DELIVERY_LOOKS.items()],
        "types": FILTERS["type"],
        "now": clock.now(),
        **listing(request, rows, chosen),
    }
    context["rows"] = [(one, DELIVERY_LOOKS[DeliveryStatus(one.status)]) for one in context["page"].object_list]
    return render(request, "frontend/webhook.html", context, status=status)
