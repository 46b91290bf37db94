"""A stream of bids for the demo market: drawn from a seed by the DPS paper's settings, or read from a real trace."""
