"""Bids in the admin: operators fail jobs and put quarantined bids back in the queue."""

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from auctions.admin.base import ReadOnlyAdmin
from auctions.domain.errors import NotReady, WrongState
from auctions.domain.refunds import Refund
from auctions.engine.jobs import fail_job, retry_bid
from auctions.models import Bid
from cluster.operators import is_operator
from web.numbers import money

MOST_NAMED = 50
"""Largest number of jobs that the page names before they fail."""


class FailForm(forms.Form):
    """The reason and the refund when an operator fails jobs."""

    reason = forms.CharField(max_length=200, help_text="Owners read it.")
    refund = forms.ChoiceField(choices=[(one.value, f"pay back: {one.value}") for one in Refund])


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
    actions = ["fail", "retry"]

    @admin.action(description="Put quarantined bids back in the queue", permissions=["act"])
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

    @admin.action(description="Fail jobs", permissions=["act"])
    def fail(self, request: HttpRequest, queryset: QuerySet[Bid]) -> HttpResponse | None:
        """Ask for the reason and the refund; then end the jobs, and free their slots from the next one on."""
        if not is_operator(request.user):
            raise PermissionDenied
        form = FailForm(request.POST if "reason" in request.POST else None)
        if not form.is_valid():
            return self._ask(request, queryset, form)
        reason, refund = form.cleaned_data["reason"], form.cleaned_data["refund"]
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
        return None

    def _ask(self, request: HttpRequest, queryset: QuerySet[Bid], form: FailForm) -> HttpResponse:
        """Return the page with the form, which sends the chosen rows again."""
        count = queryset.count()
        context = {
            **self.admin_site.each_context(request),
            "title": "Fail jobs",
            "opts": self.opts,
            "form": form,
            "bids": queryset.order_by("sequence")[:MOST_NAMED],
            "more": max(0, count - MOST_NAMED),
            "chosen": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "chosen_name": ACTION_CHECKBOX_NAME,
            "across": request.POST.get("select_across", "0"),
        }
        return TemplateResponse(request, "auctions/admin/fail.html", context)
