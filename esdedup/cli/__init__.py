"""The command line."""


def main() -> None:
    """Runs the command line."""
    # Worker processes import what starts the command, and need nothing of it.
    from esdedup.cli.app import main as run

    run()
