"""Where logs are kept: SQLite files and PostgreSQL databases."""
