"""URL paths of execution, under /api/v1."""

from django.urls import URLPattern, path

from execution.api import programs, progress, views

C = "clusters/<slug:cluster>"
T = f"{C}/bids/<int:sequence>/training"

urlpatterns: list[URLPattern] = [
    path("progress", progress.ReportProgress.as_view(), name="api-progress"),
    path(f"{C}/execution", views.ClusterExecution.as_view(), name="api-execution"),
    path(f"{C}/programs", programs.Programs.as_view(), name="api-programs"),
    path(f"{C}/programs/<int:program>", programs.OneProgram.as_view(), name="api-program"),
    path(f"{C}/programs/<int:program>/close", programs.CloseProgram.as_view(), name="api-program-close"),
    path(f"{C}/execution/step-times", views.MeasuredStepTimes.as_view(), name="api-step-times"),
    path(f"{C}/execution/step-times.csv", views.MeasuredStepTimesCsv.as_view(), name="api-step-times-csv"),
    path(T, views.BidTraining.as_view(), name="api-training"),
    path(f"{T}/progress", views.TrainingProgress.as_view(), name="api-training-progress"),
    path(f"{T}/logs/<slug:key>", views.TrainingLog.as_view(), name="api-training-log"),
]
