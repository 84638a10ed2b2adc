"""Kinds of sketches, one module each."""
