"""REST interface of plans of split learning."""
