"""Paths of the pages."""

from django.templatetags.static import static
from django.urls import URLPattern, path
from django.views.generic import RedirectView

from frontend.views import bids, events, overview, plan_again, plan_noise, plan_slots, plans, submit

urlpatterns: list[URLPattern] = [
    # Browsers ask for it on pages that name no icon, such as the admin's.
    path("favicon.ico", RedirectView.as_view(url=static("frontend/icon.svg"))),
    path("", overview.market_list, name="markets"),
    path("plans/", plans.plan_list, name="plans"),
    path("plans/new/", plans.new_plan, name="plan_new"),
    path("plans/<int:number>/", plans.plan_page, name="plan"),
    path("plans/<int:number>/part", plans.part, name="plan_part"),
    path("plans/<int:number>/version", plans.version, name="plan_version"),
    path("plans/<int:number>/course.json", plans.course, name="plan_course"),
    path("plans/<int:number>/gantt.json", plans.gantt, name="plan_gantt"),
    path("plans/<int:number>/noise", plan_noise.part, name="plan_noise"),
    path("plans/<int:number>/noise.json", plan_noise.figure, name="plan_noise_figure"),
    path("plans/<int:number>/noise.csv", plan_noise.table, name="plan_noise_csv"),
    path("plans/<int:number>/<slug:name>.csv", plans.table, name="plan_csv"),
    path("plans/<int:number>/cancel/", plans.cancel, name="plan_cancel"),
    path("plans/<int:number>/compare/", plans.compare, name="plan_compare"),
    path("plans/<int:number>/one-more/", plans.one_more, name="plan_one_more"),
    path("plans/<int:number>/slots/", plans.other_slots, name="plan_slots"),
    path("plans/<int:number>/slots.json", plan_slots.figure, name="plan_slots_figure"),
    path("plans/<int:number>/again/", plan_again.again, name="plan_again"),
    path("plans/<int:number>/delete/", plans.delete, name="plan_delete"),
    path("markets/<slug:name>/", overview.overview, name="overview"),
    path("markets/<slug:name>/tiles.json", overview.tiles, name="tiles"),
    path("markets/<slug:name>/version", overview.version, name="version"),
    path("markets/<slug:name>/events", events.events, name="events"),
    path("markets/<slug:name>/figures/<slug:chart_name>.json", overview.chart, name="chart"),
    path("markets/<slug:name>/figures/<slug:chart_name>.csv", overview.chart_csv, name="chart_csv"),
    path("markets/<slug:name>/bids/", bids.bid_list, name="bids"),
    path("markets/<slug:name>/bids/<int:number>/", bids.bid_page, name="bid"),
    path("markets/<slug:name>/bids/<int:number>/receipt", bids.receipt, name="receipt"),
    path("markets/<slug:name>/bids/<int:number>/schedule.json", bids.schedule, name="bid_schedule"),
    path("markets/<slug:name>/bids/<int:number>/schedule.csv", bids.schedule_csv, name="bid_schedule_csv"),
    path("markets/<slug:name>/bids/<int:number>/machines.json", bids.machines, name="bid_machines"),
    path("markets/<slug:name>/bids/<int:number>/machines.csv", bids.machines_csv, name="bid_machines_csv"),
    path("markets/<slug:name>/bids/<int:number>/plan.csv", bids.changes_csv, name="bid_changes_csv"),
    path("markets/<slug:name>/bids/<int:number>/segments.csv", bids.segments_csv, name="bid_segments_csv"),
    path("markets/<slug:name>/bids/<int:number>/preemptions.csv", bids.preemptions_csv, name="bid_preemptions_csv"),
    path("markets/<slug:name>/bids/<int:number>/withdraw/", bids.withdraw, name="withdraw"),
    path("markets/<slug:name>/bids/<int:number>/cancel/", bids.cancel, name="cancel"),
    path("markets/<slug:name>/submit/", submit.submit, name="submit"),
    path("markets/<slug:name>/quote/", submit.live_quote, name="quote"),
]
