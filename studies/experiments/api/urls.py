"""URL paths of traces and experiments, under /api/v1."""

from django.urls import URLPattern, path

from studies.experiments.api import traces, views

urlpatterns: list[URLPattern] = [
    path("traces", traces.Traces.as_view(), name="api-traces"),
    path("traces/<int:trace>", traces.OneTrace.as_view(), name="api-trace"),
    path("experiments", views.Experiments.as_view(), name="api-experiments"),
    path("experiments/<int:experiment>", views.OneExperiment.as_view(), name="api-experiment"),
    path("experiments/<int:experiment>/cancel", views.Cancel.as_view(), name="api-experiment-cancel"),
    path("experiments/<int:experiment>/rerun", views.Rerun.as_view(), name="api-experiment-rerun"),
    path("experiments/<int:experiment>/results", views.ResultsView.as_view(), name="api-experiment-results"),
    path("experiments/<int:experiment>/results.csv", views.ResultsCsv.as_view(), name="api-experiment-results-csv"),
    path("experiments/<int:experiment>/runs", views.Runs.as_view(), name="api-experiment-runs"),
    path("experiments/<int:experiment>/runs.csv", views.RunsCsv.as_view(), name="api-experiment-runs-csv"),
    path("experiments/<int:experiment>/runs/<int:run>", views.OneRun.as_view(), name="api-experiment-run"),
]
