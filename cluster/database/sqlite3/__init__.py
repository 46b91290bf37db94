"""SQLite, as `settings.DATABASES` names it."""
