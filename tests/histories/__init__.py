"""Histories of small markets under a virtual clock, with faults that follow from a seed."""
