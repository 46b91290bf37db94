"""Policies: each decides bids as they arrive, and plans as slots pass."""
