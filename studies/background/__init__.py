"""Rows of work that takes long: claimed, begun, watched and ended the same way, whatever is computed."""
