"""The market in the admin: operators choose the policy and open or close the market; history is read-only."""

from auctions.admin import bids, markets, outages, records, webhooks

__all__ = ["bids", "markets", "outages", "records", "webhooks"]
