"""The optimum of elastic jobs: a master problem chooses completions, column generation checks them slot by slot."""
