"""Markets in the admin: open them, open and close them for bids, change their policy."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html

from auctions.admin.base import operator_of
from auctions.counterfactual.comparison import ComparedBid, Comparison
from auctions.counterfactual.preview import Preview, preview
from auctions.domain.errors import NotReady
from auctions.engine.markets import DEFAULT_POLICY, check_openable, open_market, set_open
from auctions.engine.policies import change_policy
from auctions.models import Market, PolicyVersion
from auctions.policy_form import PolicyForm
from cluster.models import Cluster
from scheduling.model.errors import InvalidField, UnknownPolicy
from scheduling.model.types import Json
from scheduling.registry import POLICIES, make_policy

MOST_CHANGED = 50
"""Largest number of decisions that a preview lists."""


class MarketForm(forms.ModelForm):  # type: ignore[type-arg]
    """The cluster of a new market."""

    def clean_cluster(self) -> Cluster:
        """Refuse a cluster on which no job could run."""
        cluster: Cluster = self.cleaned_data["cluster"]
        try:
            check_openable(cluster, make_policy(DEFAULT_POLICY, {}))
        except InvalidField as error:
            raise forms.ValidationError([str(one) for one in error.all_wrong]) from None
        return cluster


@admin.register(Market)
class MarketAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Open a market for a cluster, open and close it for bids, change its policy."""

    form = MarketForm
    list_display = ["cluster", "is_open", "planning_failed", "policy", "submitted", "version", "slot", "choose_policy"]
    list_select_related = ["cluster"]
    actions = ["open_for_bids", "close_for_bids"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: a market is its own record."""
        return False

    def get_fields(self, request: HttpRequest, obj: Market | None = None) -> Any:
        """Return only the cluster for a new market; other fields are derived."""
        counted = ["is_open", "policy", "choose_policy", "submitted", "version", "ledger_version", "slot"]
        counted += ["sealed_version", "keep_days"]
        return ["cluster"] if obj is None else ["cluster", *counted]

    def get_readonly_fields(self, request: HttpRequest, obj: Market | None = None) -> Any:
        """Return all fields: a market's row is written under its lock only."""
        return [] if obj is None else self.get_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: Market, form: Any, change: bool) -> None:
        """Open the cluster's market with the default policy."""
        if not change:
            opened = open_market(obj.cluster, by=operator_of(request))
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
        """Add the page that changes the policy."""
        view = self.admin_site.admin_view(self.policy_view)
        return [path("<int:pk>/policy/", view, name="auctions_market_policy"), *super().get_urls()]

    def policy_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Choose a policy and its parameters."""
        market = get_object_or_404(Market.objects.select_related("cluster"), pk=pk)
        if not self.has_change_permission(request, market):
            raise PermissionDenied
        current = PolicyVersion.in_force(market.pk)
        in_force = current.policy()
        name = request.GET.get("policy", current.name)
        if name not in POLICIES:
            self.message_user(request, str(UnknownPolicy(name, POLICIES)), messages.ERROR)
            return HttpResponseRedirect(request.path)
        initial = in_force.to_json() if current.name == name else POLICIES[name]().to_json()
        # A policy without parameters sends an empty form.
        form = PolicyForm(request.POST if request.method == "POST" else None, policy=name, initial=initial)
        seen = None
        if request.method == "POST" and form.is_valid() and "preview" in request.POST:
            seen = preview(market, make_policy(name, form.cleaned_data))
        elif request.method == "POST" and form.is_valid() and _is_in_force(current, name, form.cleaned_data):
            self.message_user(request, f"Nothing has changed: {market} decides by {current}.")
            return HttpResponseRedirect(reverse("admin:auctions_market_change", args=[market.pk]))
        elif request.method == "POST" and form.is_valid():
            try:
                chosen = change_policy(market, name=name, parameters=form.cleaned_data, by=operator_of(request))
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


def _is_in_force(current: PolicyVersion, name: str, parameters: Json) -> bool:
    """Whether the market decides by this policy with these parameters already."""
    return current.name == name and current.policy().to_json() == make_policy(name, parameters).to_json()


def _changed(found: Comparison) -> list[ComparedBid]:
    """Return decisions that would have been different, the latest first."""
    return [row for row in reversed(found.rows) if row.changed][:MOST_CHANGED]


def _more(market: Market, policy: str, parameters: Json, seen: Preview) -> str:
    """Return the address of the filled-in form that requests all differences."""
    since = 1 if seen.comparison is None else seen.comparison.since
    plain = {key: ", ".join(map(str, v)) if isinstance(v, list) else v for key, v in parameters.items()}
    query = urlencode({"policy": policy, "since": since, **plain})
    return f"{reverse('counterfactual_new', args=[market.cluster.name])}?{query}"
