"""URL paths of execution, under /api/v1."""

from django.urls import URLPattern, path

from execution.api import views

C = "clusters/<slug:cluster>"
T = f"{C}/bids/<int:sequence>/training"

urlpatterns: list[URLPattern] = [
    path(f"{C}/execution", views.ClusterExecution.as_view(), name="api-execution"),
    path(T, views.BidTraining.as_view(), name="api-training"),
    path(f"{T}/progress", views.TrainingProgress.as_view(), name="api-training-progress"),
    path(f"{T}/logs/<slug:key>", views.TrainingLog.as_view(), name="api-training-log"),
]
