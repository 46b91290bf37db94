"""Use of the database: errors of a busy database, holders of its lock, and reading rows in pages."""
