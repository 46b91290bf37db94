"""Counterfactuals: a market's record decided by another policy, computed by a worker, stored, listed and read."""
