"""What a shell completes, with the scripts that the command line prints for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from esdedup.cli import main

BIN = Path(sys.executable).parent
BASH = shutil.which("bash")
TYPED = {
    "esdedup cl": "clean",
    "esdedup group --settings none.toml --thr": "--threshold",
    "esdedup index --on-duplicate s": "skip",
}
"""Lines, and how bash completes the last word; a settings file is not read for it."""


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> "Ask":
    return Ask(monkeypatch, capsys)


class Ask:
    """Asks the command line what a shell asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, instruction: str, **variables: str) -> str:
        """Return the answer to an instruction, with the variables of the shell."""
        for name, value in {**variables, "_ESDEDUP_COMPLETE": instruction}.items():
            self._monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        return self._capsys.readouterr().out

    def fish(self, line: str) -> str:
        """Return what fish shows for a line."""
        variables = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        return self("complete_fish", **variables).strip()


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_bash_completes_commands_options_and_choices(ask: Ask) -> None:
    lines = [ask("source_bash")]
    for line in TYPED:
        *_, last = words = line.split()
        lines.append(f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={words.index(last)}")
        lines.append("_esdedup_completion esdedup; echo ${COMPREPLY[@]}")
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    answer = subprocess.run(
        [str(BASH), "--norc", "-c", "\n".join(lines)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.splitlines() == [*TYPED.values()]


def test_fish_and_zsh_show_what_commands_do(ask: Ask) -> None:
    summary = "Write files again without duplicates."
    assert ask.fish("esdedup clea") == f"clean\t{summary}"
    zsh = ask("complete_zsh", _TYPER_COMPLETE_ARGS="esdedup clea")
    assert f'"clean":"{summary}"' in zsh


def test_what_a_command_refuses_is_not_offered(ask: Ask) -> None:
    assert ask.fish("esdedup clean --passa").startswith("--passages")
    assert not ask.fish("esdedup decontaminate --passa")
    assert not ask.fish("esdedup nothing --passa")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(shell: str, ask: Ask) -> None:
    assert f"_ESDEDUP_COMPLETE=complete_{shell}" in ask(f"source_{shell}")
