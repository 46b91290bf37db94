"""The kernels: for one bid, the schedule of greatest payoff at given prices."""
