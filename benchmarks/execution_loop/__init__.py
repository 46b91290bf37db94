"""Cost of a loop of the executor."""
