"""Workloads drawn by the settings of the papers, from a seed."""
