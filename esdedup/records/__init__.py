"""Reads input: files, streams, columns and paths become records and documents."""
