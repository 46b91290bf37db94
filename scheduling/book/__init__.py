"""State that changes as bids are decided: the ledger of machine-slots, active jobs, and offers of past bids."""
