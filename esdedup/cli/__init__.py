"""The command line."""

import gc


def main() -> None:
    """Run the command line."""
    # As `be_a_program` does. Modules have few cycles: searching them takes a tenth of the start.
    gc.set_threshold(100_000, 20, 20)
    # Imported here, because worker processes import this module and need nothing else of it.
    from esdedup.cli.app import main as run

    run()
