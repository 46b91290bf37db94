"""The papers' testbeds on this machine: real training jobs in real markets, measured and judged."""
