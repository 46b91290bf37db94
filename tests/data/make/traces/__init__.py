"""Samples of public trace formats: synthetic rows from recorded seeds, with what a reader has to find in them."""
