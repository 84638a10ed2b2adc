"""Benchmarks: of esdedup alone (own), beside other projects (peers), and what they share (lib)."""
