"""Spans of words that a corpus repeats: find them, and cut them from the documents."""
