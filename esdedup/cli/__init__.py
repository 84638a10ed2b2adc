"""The command line."""


def main() -> None:
    """Run the command line."""
    # Imported here, because worker processes import this module and need nothing else of it.
    from esdedup.cli.app import main as run

    run()
