"""Pairs of similar documents: scan, candidates, verification."""
