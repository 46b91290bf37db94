"""Readings of a market: prices, jobs, rows of charts, certificates and publications."""
