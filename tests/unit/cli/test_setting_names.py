"""Messages of the library show settings as options of the command line."""

from esdedup.cli.command import command_of, setting
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


def test_option_of_the_running_command_with_another_name() -> None:
    """A setting that an option of another name sets is shown by that name."""

    def show(
        as_json: bool | None = setting(None, "JSON lines.", "--json/--table"),
        k: int = setting(10, "Maximum number of rows.", "-k"),
    ) -> None:
        """Show rows."""
        shown.append(with_options("set `as_json`, raise `k`, or set `retry_for`"))

    shown: list[str] = []
    command_of("show", show).main([], standalone_mode=False)
    assert shown == ["set --json, raise -k, or set --retry-for"]
