"""Runs of the weighted-completion paper."""
