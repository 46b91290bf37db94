"""Pages, figures and the event stream."""
