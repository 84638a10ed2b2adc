"""Turns texts into sets of hashed shingles, and compares sets. Pure: no input, no output."""
