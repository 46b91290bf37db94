"""Commitments turned into processes on machines, slot by slot, by an existing engine; progress and logs back."""
