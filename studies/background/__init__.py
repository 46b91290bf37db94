"""Background jobs: rows that workers claim, start, watch and end in the same way, for any kind of computation."""
