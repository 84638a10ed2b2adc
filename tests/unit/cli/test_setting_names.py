"""Messages of the library show settings as options of the command line."""

from esdedup.cli.setting_names import with_options


def test_unknown_setting_becomes_an_option() -> None:
    """Without a command that has the setting, its name in Python becomes the option's."""
    assert with_options("raise `retry_for`") == "raise --retry-for"


def test_command_in_backticks_stays() -> None:
    """A command has blanks, and is no setting."""
    assert with_options("run `esdedup backfill -i news`") == "run `esdedup backfill -i news`"


def test_connection_setting_with_another_name() -> None:
    """The fingerprint of a certificate has an option of another name."""
    assert with_options("set `fingerprint`") == "set --cert-fingerprint"
