"""What changes as bids are decided: the ledger of machine-slots, jobs under way, and what earlier bids offered."""
