"""The market in the admin: operators choose the policy, and open or close the market; history is read-only."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html

from auctions.counterfactual.comparison import Comparison, Row
from auctions.counterfactual.preview import Preview, preview
from auctions.domain.errors import NotReady, WrongState
from auctions.domain.refunds import Refund
from auctions.engine.jobs import fail_job, retry_bid
from auctions.engine.markets import open_market, set_open
from auctions.engine.outages import state_of
from auctions.engine.policies import change_policy
from auctions.engine.servers import drain_server, lose_server, restore_server
from auctions.models import (
    Bid,
    Certificate,
    Commitment,
    DecisionRecord,
    Event,
    Market,
    Outage,
    OutageKind,
    Payment,
    PolicyError,
    PolicyVersion,
    Publication,
    Quotients,
    SlotPrice,
)
from auctions.policy_form import PolicyForm
from cluster.models import Server
from cluster.operators import is_operator
from scheduling.model.errors import InvalidField, UnknownPolicy
from scheduling.model.types import Json
from scheduling.registry import POLICIES, make_policy

MOST_CHANGED = 50
"""Largest number of decisions that a preview lists."""


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows of history: they are shown and filtered, but never added, changed or deleted."""

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse to add."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to change."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse to delete."""
        return False


@admin.register(Market)
class MarketAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Open a market for a cluster, open and close it for bids, change its policy."""

    list_display = ["cluster", "is_open", "planning_failed", "policy", "submitted", "version", "slot", "choose_policy"]
    list_select_related = ["cluster"]
    actions = ["open_for_bids", "close_for_bids"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: a market is its own record."""
        return False

    def get_fields(self, request: HttpRequest, obj: Market | None = None) -> Any:
        """Return only the cluster for a new market; other fields are derived."""
        counted = ["is_open", "policy", "choose_policy", "submitted", "version", "ledger_version", "slot"]
        return ["cluster"] if obj is None else ["cluster", *counted]

    def get_readonly_fields(self, request: HttpRequest, obj: Market | None = None) -> Any:
        """A market's own row is written under its lock only."""
        return [] if obj is None else self.get_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: Market, form: Any, change: bool) -> None:
        """Open the cluster's market with the default policy."""
        if not change:
            opened = open_market(obj.cluster, by=request.user if request.user.is_authenticated else None)
            obj.pk = opened.pk

    @admin.display(description="policy")
    def policy(self, market: Market) -> str:
        """The policy in force."""
        return str(PolicyVersion.objects.filter(market=market).order_by("-number").first() or "")

    @admin.display(description="other policy")
    def choose_policy(self, market: Market) -> str:
        """Return the link to the page that changes the policy."""
        return format_html('<a href="{}">Change policy</a>', reverse("admin:auctions_market_policy", args=[market.pk]))

    @admin.action(description="Open for bids", permissions=["change"])
    def open_for_bids(self, request: HttpRequest, queryset: QuerySet[Market]) -> None:
        """Let the markets accept bids again."""
        self._set_open(request, queryset, is_open=True)

    @admin.action(description="Close for bids", permissions=["change"])
    def close_for_bids(self, request: HttpRequest, queryset: QuerySet[Market]) -> None:
        """Let the markets accept no more bids; waiting bids are still decided."""
        self._set_open(request, queryset, is_open=False)

    def _set_open(self, request: HttpRequest, queryset: QuerySet[Market], *, is_open: bool) -> None:
        for market in queryset:
            set_open(market, is_open)
            self.message_user(request, f"{market} is {'open for' if is_open else 'closed for'} bids.")

    def get_urls(self) -> list[URLPattern]:
        """The page of the policy before the admin's own."""
        view = self.admin_site.admin_view(self.policy_view)
        return [path("<int:pk>/policy/", view, name="auctions_market_policy"), *super().get_urls()]

    def policy_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Choose a policy and its parameters."""
        market = get_object_or_404(Market.objects.select_related("cluster"), pk=pk)
        if not self.has_change_permission(request, market):
            raise PermissionDenied
        current = PolicyVersion.objects.filter(market=market).latest("number")
        name = request.GET.get("policy", current.name)
        if name not in POLICIES:
            self.message_user(request, str(UnknownPolicy(name, POLICIES)), messages.ERROR)
            return HttpResponseRedirect(request.path)
        defaults = POLICIES[name]().to_json()
        initial = defaults | (current.parameters if current.name == name else {})
        # A policy without parameters sends an empty form.
        form = PolicyForm(request.POST if request.method == "POST" else None, policy=name, initial=initial)
        seen = None
        if request.method == "POST" and form.is_valid() and "preview" in request.POST:
            seen = preview(market, make_policy(name, form.cleaned_data))
        elif request.method == "POST" and form.is_valid():
            user = request.user if request.user.is_authenticated else None
            try:
                chosen = change_policy(market, name=name, parameters=form.cleaned_data, by=user)
            except InvalidField as error:
                form.refuse(error)
            except NotReady as error:
                self.message_user(request, str(error), messages.WARNING)
            else:
                self.message_user(request, f"{market} now decides by {chosen}.")
                return HttpResponseRedirect(reverse("admin:auctions_market_change", args=[market.pk]))
        context = {
            **self.admin_site.each_context(request),
            "title": "Change policy",
            "market": market,
            "current": current,
            "policies": [(key, POLICIES[key].title) for key in sorted(POLICIES)],
            "policy": name,
            "form": form,
            "seen": seen,
            "changed": [] if seen is None or seen.comparison is None else _changed(seen.comparison),
            "most": MOST_CHANGED,
            "more": "" if seen is None else _more(market, name, form.cleaned_data, seen),
        }
        return TemplateResponse(request, "auctions/admin/policy.html", context)


def _changed(found: Comparison) -> list[Row]:
    """Return decisions that would have been different, the latest first."""
    return [row for row in reversed(found.rows) if row.changed][:MOST_CHANGED]


def _more(market: Market, policy: str, parameters: Json, seen: Preview) -> str:
    """Return the address of the filled-in form that requests all differences."""
    since = 1 if seen.comparison is None else seen.comparison.since
    plain = {key: ", ".join(map(str, v)) if isinstance(v, list) else v for key, v in parameters.items()}
    query = urlencode({"policy": policy, "since": since, **plain})
    return f"{reverse('counterfactual_new', args=[market.cluster.name])}?{query}"


class FailForm(ActionForm):
    """The reason and the refund when an operator fails jobs."""

    why = forms.CharField(max_length=200, required=False, label="Reason")
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
        why, refund = request.POST.get("why", "").strip(), request.POST.get("refund", "")
        if not why or not refund:
            self.message_user(request, "Give a reason, which owners read, and say what is paid back.", messages.ERROR)
            return
        for bid in queryset.order_by("sequence"):
            try:
                fail_job(bid, why, refund=Refund(refund))
            except WrongState as error:
                self.message_user(request, str(error), messages.ERROR)
            else:
                self.message_user(request, f"{bid} failed; {bid.refund:,.2f} was paid back.".capitalize())


def _operator(request: HttpRequest) -> User | None:
    return request.user if request.user.is_authenticated else None


@admin.register(PolicyError)
class PolicyErrorAdmin(ReadOnlyAdmin):
    """Bids and plans on which a policy failed, the latest first."""

    list_display = ["market", "version", "bid", "policy", "error", "at"]
    list_filter = ["market", ("bid", admin.EmptyFieldListFilter), "bid__state"]
    list_select_related = ["market__cluster", "bid", "policy"]
    search_fields = ["error"]


@admin.register(DecisionRecord)
class DecisionRecordAdmin(ReadOnlyAdmin):
    """Receipts."""

    list_display = ["bid", "policy", "slot", "ledger_version", "decided_at", "latency_ms"]
    list_filter = ["bid__market", "bid__state"]
    list_select_related = ["bid", "policy"]


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    """The steps of each market."""

    list_display = ["version", "market", "kind", "said", "slot", "at", "bid"]
    list_filter = ["kind", "market"]
    list_select_related = ["market__cluster", "bid"]

    @admin.display(description="what")
    def said(self, event: Event) -> str:
        """Return the operator's statement about a server, or why a job failed."""
        service = event.payload.get("service")
        if service is not None:
            return f"Server {service['server']}: {service['state'].replace('_', ' ')}"
        return str(event.payload.get("why", ""))


class ServerField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A server of any market; servers of several markets may have the same name."""

    def label_from_instance(self, obj: Server) -> str:
        """Cluster and server."""
        return f"{obj.cluster.name}: {obj.name}"


class OutageForm(forms.Form):
    """A form that marks a server as lost, or lets it take no new work from a slot on."""

    server = ServerField(
        Server.objects.filter(cluster__market__isnull=False)
        .select_related("cluster")
        .order_by("cluster__name", "position", "pk")
    )
    kind = forms.ChoiceField(choices=OutageKind.choices, initial=OutageKind.DRAIN)
    from_slot = forms.IntegerField(required=False, help_text="Drain: no new work from it on; empty: from now on.")
    deadline_slot = forms.IntegerField(
        required=False, help_text="Drain: jobs that still hold it then are moved or fail. Empty: they may finish."
    )
    why = forms.CharField(max_length=200, required=False, label="Reason")

    def say(self, by: User | None) -> bool:
        """Record the outage; if it is refused, return False and show an error at the field."""
        said = self.cleaned_data
        server, why = said["server"], said["why"]
        try:
            if said["kind"] == OutageKind.LOST:
                lose_server(server, why=why, by=by)
            else:
                slots = {"from_slot": said["from_slot"], "deadline": said["deadline_slot"]}
                drain_server(server, **slots, why=why, by=by)
        except WrongState as error:
            self.add_error("server", str(error))
        except InvalidField as error:
            self.add_error(error.field, error.problem)
        return self.is_valid()


@admin.register(Outage)
class OutageAdmin(ReadOnlyAdmin):
    """Take servers out of service, and return them; earlier outages are history."""

    list_display = [
        "server",
        "cluster",
        "state",
        "from_slot",
        "deadline",
        "out_slot",
        "ended_slot",
        "why",
        "said_by",
        "said_at",
    ]
    list_filter = ["kind", "server__cluster"]
    list_select_related = ["server__cluster", "said_by"]
    search_fields = ["server__name", "why"]
    actions = ["return_to_service"]
    change_list_template = "auctions/admin/outages.html"

    def get_urls(self) -> list[URLPattern]:
        """The page that says it before the admin's own."""
        view = self.admin_site.admin_view(self.say_view)
        return [path("say/", view, name="auctions_outage_say"), *super().get_urls()]

    def say_view(self, request: HttpRequest) -> HttpResponse:
        """Take a server out of service."""
        if not is_operator(request.user):
            raise PermissionDenied
        chosen = request.GET.get("server", "")
        form = OutageForm(request.POST or None, initial={"server": chosen} if chosen.isdigit() else {})
        if request.method == "POST" and form.is_valid() and form.say(_operator(request)):
            self.message_user(request, f"Server {form.cleaned_data['server']} is out of service, or takes no new work.")
            return HttpResponseRedirect(reverse("admin:auctions_outage_changelist"))
        context = {**self.admin_site.each_context(request), "title": "Take a server out of service", "form": form}
        return TemplateResponse(request, "auctions/admin/outage.html", {**context, "opts": self.opts})

    @admin.display(description="cluster")
    def cluster(self, outage: Outage) -> str:
        """Servers of several clusters may have the same name."""
        return outage.server.cluster.name

    @admin.display(description="state")
    def state(self, outage: Outage) -> str:
        """Return the state of an outage in words."""
        return "ended" if outage.ended_version is not None else state_of(outage)

    @admin.action(description="Return to service")
    def return_to_service(self, request: HttpRequest, queryset: QuerySet[Outage]) -> None:
        """Return servers to service with the capacity of their rows."""
        for outage in queryset.filter(ended_version=None).select_related("server__cluster"):
            restore_server(outage.server, why="", by=_operator(request))
            self.message_user(request, f"Server {outage.server.name} is in service.")


@admin.register(Commitment)
class CommitmentAdmin(ReadOnlyAdmin):
    """What is held where."""

    list_display = ["bid", "server", "machine_type", "count", "start", "end"]
    list_filter = ["bid__market", "machine_type"]
    list_select_related = ["bid", "server", "machine_type"]


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    """What was charged."""

    list_display = ["bid", "amount", "created_at"]
    list_filter = ["bid__market"]
    list_select_related = ["bid"]


@admin.register(PolicyVersion)
class PolicyVersionAdmin(ReadOnlyAdmin):
    """Policies, past and present."""

    list_display = ["market", "number", "name", "created_at", "created_by"]
    list_filter = ["market", "name"]
    list_select_related = ["market__cluster", "created_by"]


@admin.register(SlotPrice)
class SlotPriceAdmin(ReadOnlyAdmin):
    """Prices that slots began with."""

    list_display = ["market", "slot"]
    list_filter = ["market"]
    list_select_related = ["market__cluster"]


@admin.register(Publication)
class PublicationAdmin(ReadOnlyAdmin):
    """Money figures published to bidders."""

    list_display = ["market", "slot", "version"]
    list_filter = ["market"]
    list_select_related = ["market__cluster"]


@admin.register(Certificate)
class CertificateAdmin(ReadOnlyAdmin):
    """Proved bounds on welfare."""

    list_display = ["market", "kind", "value", "welfare", "gap", "decided", "loose", "took_ms", "computed_at"]
    list_select_related = ["market__cluster"]


@admin.register(Quotients)
class QuotientsAdmin(ReadOnlyAdmin):
    """Competitive ratios of markets that queue."""

    list_display = ["market", "basis", "took_ms", "computed_at"]
    list_select_related = ["market__cluster"]
