"""Replay of a market's events, and the audit."""
