"""Plans through REST."""
