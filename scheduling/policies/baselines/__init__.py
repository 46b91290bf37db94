"""Baseline schedulers for comparisons, as policies; docs/baselines.md defines each of them."""
