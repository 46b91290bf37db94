"""REST shapes of split learning: each is one class that checks a body, writes an answer, and describes both."""
