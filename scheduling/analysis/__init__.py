"""Analysis of a policy's decisions."""
