"""Tokens of users, and what each user may see and do."""
