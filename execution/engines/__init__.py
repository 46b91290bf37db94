"""Engines: they start processes on named servers, and stop them."""
