"""Jobs whose numbers of workers and parameter servers may change in every slot."""
