"""Rows of public traces as bids and inventories of the core."""
