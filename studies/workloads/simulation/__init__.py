"""Bids of a trace under a policy, and what came of it."""
