"""REST interface of counterfactuals and of alternative statements of bids."""
