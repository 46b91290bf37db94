"""URL paths of counterfactuals and alternatives, under /api/v1."""

from django.urls import URLPattern, path

from studies.counterfactuals.api import views

H = "clusters/<slug:cluster>/counterfactuals"

urlpatterns: list[URLPattern] = [
    path(H, views.Counterfactuals.as_view(), name="api-counterfactuals"),
    path(f"{H}/<int:counterfactual>", views.OneCounterfactual.as_view(), name="api-counterfactual"),
    path(f"{H}/<int:counterfactual>/cancel", views.Cancel.as_view(), name="api-counterfactual-cancel"),
    path(f"{H}/<int:counterfactual>/bids", views.Bids.as_view(), name="api-counterfactual-bids"),
    path(f"{H}/<int:counterfactual>/bids.csv", views.Table.as_view(), name="api-counterfactual-csv"),
    path(
        "clusters/<slug:cluster>/bids/<int:sequence>/alternatives",
        views.BidAlternatives.as_view(),
        name="api-alternatives",
    ),
]
