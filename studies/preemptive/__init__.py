"""Runs and quotients of the preemptive edge-cloud paper."""
