"""Removes duplicates and restores them from a log."""
