"""Schedulers that others are measured against, as policies of weighted completion: docs/baselines.md defines each."""
