"""Benchmarks of esdedup alone."""
