"""The core: every algorithm, pure Python over numpy arrays. No Django, no clock, no I/O."""
