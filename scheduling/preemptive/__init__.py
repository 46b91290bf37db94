"""Preemptive scheduling over edge and cloud: queues of chunks instead of reserved slots."""
