"""REST interface of traces and experiments."""
