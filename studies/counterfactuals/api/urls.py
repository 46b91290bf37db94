"""URL paths of counterfactuals and alternatives, under /api/v1."""

from django.urls import URLPattern, path

from studies.counterfactuals.api import views

H = "clusters/<slug:cluster>/hindsights"

urlpatterns: list[URLPattern] = [
    path(H, views.Hindsights.as_view(), name="api-hindsights"),
    path(f"{H}/<int:hindsight>", views.OneHindsight.as_view(), name="api-hindsight"),
    path(f"{H}/<int:hindsight>/cancel", views.Cancel.as_view(), name="api-hindsight-cancel"),
    path(f"{H}/<int:hindsight>/bids", views.Bids.as_view(), name="api-hindsight-bids"),
    path(f"{H}/<int:hindsight>/bids.csv", views.Table.as_view(), name="api-hindsight-csv"),
    path(
        "clusters/<slug:cluster>/bids/<int:sequence>/alternatives",
        views.BidAlternatives.as_view(),
        name="api-alternatives",
    ),
]
