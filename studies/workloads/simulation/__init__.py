"""Simulation of a policy on the bids of a workload, and its results."""
