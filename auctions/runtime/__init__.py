"""Parts of the service's processes: those of `serve`, health, errors of tasks."""
