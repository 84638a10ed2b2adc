"""Benchmarks of esdedup beside other projects, and the scripts that run in their environments."""
