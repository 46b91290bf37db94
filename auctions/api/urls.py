"""Paths of the REST interface, under /api/v1/."""

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularSwaggerSplitView

from auctions.api import bids, budgets, servers, views, webhooks
from web.openapi import Description

C = "clusters/<slug:cluster>"
B = f"{C}/bids/<int:sequence>"
S = f"{C}/servers/<str:server>"
W = "webhooks/<int:webhook>"
T = "teams/<slug:team>/budget"

urlpatterns: list[URLPattern] = [
    path("token", views.Tokens.as_view(), name="api-token"),
    path("clusters", views.Clusters.as_view(), name="api-clusters"),
    path(C, views.OneCluster.as_view(), name="api-cluster"),
    path(f"{C}/bids", bids.Bids.as_view(), name="api-bids"),
    path(f"{C}/bids/bulk", bids.BulkBids.as_view(), name="api-bulk"),
    path(f"{C}/quotes", bids.Quotes.as_view(), name="api-quotes"),
    path(B, bids.OneBid.as_view(), name="api-bid"),
    path(f"{B}/withdraw", bids.Withdraw.as_view(), name="api-withdraw"),
    path(f"{B}/cancel", bids.Cancel.as_view(), name="api-cancel"),
    path(f"{B}/retry", servers.Retry.as_view(), name="api-retry"),
    path(f"{B}/fail", servers.Fail.as_view(), name="api-fail"),
    path(f"{B}/complete", servers.Complete.as_view(), name="api-complete"),
    path(f"{B}/schedule", bids.BidSchedule.as_view(), name="api-schedule"),
    path(f"{B}/changes", bids.BidChanges.as_view(), name="api-changes"),
    path(f"{B}/machines", bids.BidMachines.as_view(), name="api-machines"),
    path(f"{B}/segments", bids.BidSegments.as_view(), name="api-segments"),
    path(f"{B}/preemptions", bids.BidPreemptions.as_view(), name="api-preemptions"),
    path(f"{C}/servers", servers.Servers.as_view(), name="api-servers"),
    path(S, servers.OneServer.as_view(), name="api-server"),
    path(f"{S}/lost", servers.Lose.as_view(), name="api-server-lost"),
    path(f"{S}/drain", servers.Drain.as_view(), name="api-server-drain"),
    path(f"{S}/restore", servers.Restore.as_view(), name="api-server-restore"),
    path(f"{C}/prices", views.Prices.as_view(), name="api-prices"),
    path(f"{C}/utilisation", views.Utilisation.as_view(), name="api-utilisation"),
    path(f"{C}/welfare", views.Welfare.as_view(), name="api-welfare"),
    path(f"{C}/summary", views.Summary.as_view(), name="api-summary"),
    path("webhooks", webhooks.Webhooks.as_view(), name="api-webhooks"),
    path(W, webhooks.OneWebhook.as_view(), name="api-webhook"),
    path(f"{W}/rotate", webhooks.Rotate.as_view(), name="api-webhook-rotate"),
    path(f"{W}/test", webhooks.Test.as_view(), name="api-webhook-test"),
    path(f"{W}/deliveries", webhooks.Deliveries.as_view(), name="api-deliveries"),
    path(f"{W}/deliveries/<slug:delivery>/redeliver", webhooks.Redeliver.as_view(), name="api-redeliver"),
    path("budgets", budgets.Budgets.as_view(), name="api-budgets"),
    path(T, budgets.OneBudget.as_view(), name="api-budget"),
    path(f"{T}/grants", budgets.Grants.as_view(), name="api-budget-grants"),
    path(f"{T}/transactions", budgets.Transactions.as_view(), name="api-budget-transactions"),
    path(f"{T}/transactions.csv", budgets.TransactionsCsv.as_view(), name="api-budget-transactions-csv"),
    path("schema", Description.as_view(), name="api-schema"),
    # Split: the page holds no inline script, which the content security policy would refuse.
    path(
        "docs",
        SpectacularSwaggerSplitView.as_view(
            url_name="api-schema",
            throttle_classes=[],
            http_method_names=["get", "head"],  # OPTIONS would be answered by a template, and there is none
        ),
        name="api-docs",
    ),
]
