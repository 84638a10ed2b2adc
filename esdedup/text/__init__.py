"""Texts to sets of hashed shingles, and how two sets compare. Pure: no input, no output."""
