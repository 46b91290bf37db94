"""Counterfactuals: a market's record under another policy, and a bid that states another value."""
