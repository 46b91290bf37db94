"""Instances of split learning from measured profiles, and the scenarios of the paper."""
