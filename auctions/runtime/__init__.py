"""What runs in the processes of the service: the embedded worker, health, retries, shutdown."""
