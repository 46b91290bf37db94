"""PostgreSQL, as `settings.DATABASES` names it."""
