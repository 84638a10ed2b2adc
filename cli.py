"""Runs the command line from a checkout: python cli.py --help."""

from esdedup.cli import main

if __name__ == "__main__":
    main()
