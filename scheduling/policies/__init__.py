"""Policies: each policy decides bids as they arrive and updates plans as slots pass."""
