"""Bids in the admin: operators fail jobs and put quarantined bids back in the queue."""

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest

from auctions.admin.base import ReadOnlyAdmin
from auctions.domain.errors import NotReady, WrongState
from auctions.domain.refunds import Refund
from auctions.engine.jobs import fail_job, retry_bid
from auctions.models import Bid
from cluster.operators import is_operator
from web.numbers import money


class FailForm(ActionForm):
    """The reason and the refund when an operator fails jobs."""

    reason = forms.CharField(max_length=200, required=False, label="Reason")
    refund = forms.ChoiceField(choices=[(one.value, f"pay back: {one.value}") for one in Refund], required=False)


@admin.register(Bid)
class BidAdmin(ReadOnlyAdmin):
    """Submitted bids and their outcomes."""

    list_display = [
        "sequence",
        "market",
        "owner",
        "label",
        "state",
        "value",
        "payment",
        "start_slot",
        "completion_slot",
    ]
    list_filter = ["state", "market"]
    list_select_related = ["market__cluster", "owner"]
    search_fields = ["label", "owner__username", "=sequence"]
    action_form = FailForm
    actions = ["fail", "retry"]

    @admin.action(description="Put quarantined bids back in the queue")
    def retry(self, request: HttpRequest, queryset: QuerySet[Bid]) -> None:
        """Let the policy in force decide them again, before later bids."""
        if not is_operator(request.user):
            raise PermissionDenied
        for bid in queryset.order_by("sequence"):
            try:
                retry_bid(bid)
            except WrongState as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"{bid} is back in the queue.".capitalize())

    @admin.action(description="Fail jobs, for the reason given")
    def fail(self, request: HttpRequest, queryset: QuerySet[Bid]) -> None:
        """End the jobs, free their slots from the next one on, and pay their owners the chosen refund."""
        if not is_operator(request.user):
            raise PermissionDenied
        reason, refund = request.POST.get("reason", "").strip(), request.POST.get("refund", "")
        if not reason or not refund:
            self.message_user(request, "Give a reason, which owners read, and say what is paid back.", messages.ERROR)
            return
        for bid in queryset.order_by("sequence"):
            try:
                fail_job(bid, reason, refund=Refund(refund))
            except WrongState as error:
                self.message_user(request, str(error), messages.ERROR)
            except NotReady as error:
                words = f"The job of {bid} goes on: {error}"
                self.message_user(request, words, messages.WARNING)
            else:
                self.message_user(request, f"{bid} failed; {money(bid.refund)} was paid back.".capitalize())
