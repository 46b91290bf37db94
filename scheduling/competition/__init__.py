"""Bids that compete for the machines of now: who starts, and what a start costs the others."""
