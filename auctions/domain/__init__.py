"""What a market is made of: bids, inventories, states and their transitions, locks and events, money."""
