"""Template filters of the admin of markets."""
