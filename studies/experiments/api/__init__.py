"""Traces and experiments through REST."""
