"""Best-response kernels: find the schedule of greatest payoff for one bid at given prices."""
