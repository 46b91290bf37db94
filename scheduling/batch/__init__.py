"""Batch planning without payments: which jobs run, in which order, and on which machines."""
