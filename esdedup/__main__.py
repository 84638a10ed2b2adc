"""Runs the command line: python -m esdedup."""

from esdedup.cli import main

if __name__ == "__main__":
    main()
