"""The state of a market at one moment: the live book, rebuilt from rows or updated by events, and its stored rows."""
