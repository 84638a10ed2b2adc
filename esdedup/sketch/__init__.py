"""Shingles to tokens, and every parameter of them. Pure: no input, no output."""
