"""URL paths of plans, under /api/v1."""

from django.urls import URLPattern, path

from studies.split_learning.api import comparisons, noise, runs, views

urlpatterns: list[URLPattern] = [
    path("plans", views.Plans.as_view(), name="api-plans"),
    path("plans/<int:plan>", views.OnePlan.as_view(), name="api-plan"),
    path("plans/<int:plan>/cancel", views.Cancel.as_view(), name="api-plan-cancel"),
    path("plans/<int:plan>/comparisons", comparisons.Comparisons.as_view(), name="api-plan-comparisons"),
    path("plans/<int:plan>/methods", comparisons.Methods.as_view(), name="api-plan-methods"),
    path("plans/<int:plan>/helpers", comparisons.OneMoreHelper.as_view(), name="api-plan-helpers"),
    path("plans/<int:plan>/slots", comparisons.Slots.as_view(), name="api-plan-slots"),
    path("plans/<int:plan>/replan", comparisons.Replan.as_view(), name="api-plan-replan"),
    path("plans/<int:plan>/schedule.csv", views.Schedule.as_view(), name="api-plan-schedule"),
    path("plans/<int:plan>/runs", runs.PlanRuns.as_view(), name="api-plan-runs"),
    path("plans/<int:plan>/runs/<int:run>", runs.OnePlanRun.as_view(), name="api-plan-run"),
    path("plans/<int:plan>/runs/<int:run>/cancel", runs.Cancel.as_view(), name="api-plan-run-cancel"),
    path("plans/<int:plan>/runs/<int:run>/tasks.csv", runs.Tasks.as_view(), name="api-plan-run-tasks"),
    path("plans/<int:plan>/noise", noise.UnderNoise.as_view(), name="api-plan-noise"),
]
