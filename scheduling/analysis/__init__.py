"""What can be said of a policy's decisions afterwards."""
