"""Computations beside the market: replays of traces, experiments, plans, optima in hindsight."""
