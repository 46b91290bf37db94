"""Offline bounds and optima with all bids known in advance, and the schedules for which they hold."""

from scheduling.offline.best import best_bound
from scheduling.offline.duality import Proof, dual_at_prices, lagrangian
from scheduling.offline.problem import Answer, Covers, Kind, OfflineProblem
from scheduling.solvers.time_limit import Left

__all__ = ["Answer", "Covers", "Kind", "Left", "OfflineProblem", "Proof", "best_bound", "dual_at_prices", "lagrangian"]
