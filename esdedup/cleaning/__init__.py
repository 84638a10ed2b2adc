"""Remove duplicates from files, and from texts in memory, without an index."""
