"""Price rules: what a unit of a resource costs in a slot."""
