"""The figures of the five papers, computed anew: what each claims, and whether that came out."""
