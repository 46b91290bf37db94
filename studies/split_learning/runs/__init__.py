"""Runs of plans as background jobs: requests, computing, and readings."""
