"""Plans of parallel split learning as a service: asked for, computed by a worker, read while they are made."""
