"""A storm over a whole installation: hundreds of faults while thousands of bids are sent."""
