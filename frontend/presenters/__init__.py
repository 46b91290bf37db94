"""Rows and words that pages show."""
