"""Filters of the list of bids. Their values are those that the description of the operation allows."""

import django_filters
from django import forms
from django.db.models import QuerySet
from rest_framework.request import Request

from accounts.rights import operates
from auctions.models import ADMITTED, Bid, BidState, Market
from web.errors import refuse


class _Slot(django_filters.Filter):  # type: ignore[misc]
    field_class = forms.IntegerField


class BidFilter(django_filters.FilterSet):  # type: ignore[misc]
    """Filters of a list of bids."""

    state = django_filters.MultipleChoiceFilter(choices=BidState.choices)
    label = django_filters.CharFilter(strip=False)
    owner = django_filters.CharFilter(field_name="owner__username", strip=False)
    admitted = django_filters.ChoiceFilter(choices=[("true", "yes"), ("false", "no")], method="by_admission")
    from_slot = _Slot(field_name="arrival_slot", lookup_expr="gte")
    before_slot = _Slot(field_name="arrival_slot", lookup_expr="lt")

    class Meta:
        model = Bid
        fields: list[str] = []

    def by_admission(self, bids: "QuerySet[Bid]", _name: str, value: str) -> "QuerySet[Bid]":
        """Admitted bids, or rejected ones."""
        return bids.filter(state__in=sorted(ADMITTED) if value == "true" else [BidState.REJECTED])


def check_owner(request: Request, market: Market) -> None:
    """Refuse to filter by owner for who does not operate the cluster."""
    if "owner" in request.query_params and not operates(request.user, market.cluster):
        raise refuse("owner", "expected no owner, because only operators may filter by owner, got one")


def filtered(request: Request, bids: "QuerySet[Bid]", market: Market) -> "QuerySet[Bid]":
    """Return the bids that match the query."""
    check_owner(request, market)
    found: QuerySet[Bid] = BidFilter(request.query_params, queryset=bids, request=request).qs
    return found
