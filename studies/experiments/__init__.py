"""Experiments: policies x workloads x seeds. Each run is a row that a worker computes and that can be repeated."""
