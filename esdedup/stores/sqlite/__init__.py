"""The store in a local SQLite file."""
