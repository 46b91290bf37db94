"""How this project uses its database: what a busy one is, who holds its lock, and how rows are read in pages."""
