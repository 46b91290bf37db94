"""The live market: bids, quotes, decisions, commitments, payments, events and REST."""
