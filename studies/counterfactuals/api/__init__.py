"""Hindsights and alternatives of bids through REST."""
