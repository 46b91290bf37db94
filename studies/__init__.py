"""Questions asked offline: replays, experiments, optima."""
