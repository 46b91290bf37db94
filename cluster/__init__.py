"""Physical facts: clusters, servers, resource and machine types; the only reader of the clock."""
