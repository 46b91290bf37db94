"""Baseline schedulers for comparisons, as policies; docs/algorithms/baselines.md defines each of them."""
