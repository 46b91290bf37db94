"""Parts of a market: bids, inventories, states and their transitions, locks, events and money."""
