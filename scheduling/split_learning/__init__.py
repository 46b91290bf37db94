"""Parallel split learning: a helper for each client, and the order of the passes on each helper."""
