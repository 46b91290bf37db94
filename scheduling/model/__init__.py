"""Data model: bids, utilities, inventories, schedules and decisions, and the validation of input."""
