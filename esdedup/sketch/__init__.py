"""Turns shingles into tokens, and holds every parameter of them. Pure: no input, no output."""
