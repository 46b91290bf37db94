"""Forms: what people fill in, and how it is read."""
