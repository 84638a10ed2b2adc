"""Benchmarks of esdedup alone (own), beside other projects (peers), and shared parts (lib)."""
