"""Indices that others write to."""
