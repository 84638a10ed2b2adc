"""The command line."""

from esdedup.cli.app import app, main

__all__ = ["app", "main"]
