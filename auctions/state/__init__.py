"""A market at one moment: the live book, rebuilt from rows or followed by events, and rows as they are stored."""
