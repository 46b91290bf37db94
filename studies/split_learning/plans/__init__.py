"""Plans of parallel split learning as a service: created, computed by a worker, and readable during computation."""
