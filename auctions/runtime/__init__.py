"""Parts of the service's processes: the embedded worker, health, errors of tasks."""
