"""What a market's record says: replay of its events, and the audit."""
