"""Readers of public traces: what clusters recorded of their jobs, machines, quotas and step times."""
