"""The market in the admin: operators choose the policy and open or close the market; history is read-only."""

from auctions.admin import bids, credits, markets, outages, records, webhooks

__all__ = ["bids", "credits", "markets", "outages", "records", "webhooks"]
