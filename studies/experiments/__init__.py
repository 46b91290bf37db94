"""Policies x workloads x seeds: each run a row that some worker computes, known by what it takes to run it again."""
