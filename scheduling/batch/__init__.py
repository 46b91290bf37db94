"""Jobs planned together where nobody pays: which of them run, in which order, and on which machines."""
