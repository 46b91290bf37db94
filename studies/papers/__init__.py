"""The figures of the five papers, computed again: what each claims, and whether that came out."""
