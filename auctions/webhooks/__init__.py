"""Webhooks: messages about a user's own bids to an address that the user states.

Messages are derived from the events of markets by cursors, so no decision waits for them and none is lost if a process
is killed. Each is sent at least once, and those of one webhook in order.
"""
