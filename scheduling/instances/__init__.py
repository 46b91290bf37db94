"""Instance files of each paper, and the answers of `python -m scheduling decide`."""
