"""Records told again under another policy, in a worker: asked for, kept, listed and read."""
