"""Addresses and their passwords: what is wrong is refused, and no password is ever shown."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import esdedup
from esdedup.proxy.settings import ProxySettings
from esdedup.proxy.upstream import Upstream
from esdedup.stores.connection import connection_to
from tests.helpers.commands import run_command

SECRET = "s3cr,et"

WRONG = [
    f"elastic:{SECRET}@localhost:9200",
    f"https://elastic:{SECRET}@[::1",
    f"http://elastic:{SECRET}@h:99999",
    f"http://elastic:{SECRET}@a b:9200",
    f"ftp://elastic:{SECRET}@h:9200",
    f"http://elastic:{SECRET}@",
    "http://user:a?b@host:9200?api_key=s3cret",
    f"http://h:9200,elastic:{SECRET}@h",
    f"http://elastic:{SECRET}@h:9200",
    "http://[",
    "http://h:99999",
    "http://h:0",
    "http://h:x",
    "http://a\nb:9200",
    "http://.:9200",
    f"http://{'a' * 64}:9200",
    "http://:9200",
    "http://",
    "localhost:9200",
]


@pytest.mark.parametrize("url", WRONG)
def test_a_wrong_address_is_refused(url: str) -> None:
    ran = run_command("stats", environment={"ESDEDUP_URL": url}, status=2)
    assert ran.err.startswith("Error: URL '")
    assert len(ran.err.splitlines()) == 1
    assert "use http://host:port" in ran.err
    assert "s3cr" not in ran.err
    assert "et@" not in ran.err
    if url != "localhost:9200":
        with pytest.raises(esdedup.UsageError) as caught:
            Upstream(ProxySettings(upstream=url))
        assert "s3cr" not in str(caught.value)


@pytest.mark.parametrize("name", [WRONG[0], "localhost:9200", "elastic:pw@host", "ftp://h/x"])
def test_an_address_is_not_the_name_of_a_file(name: str, folder: Path) -> None:
    with pytest.raises(esdedup.UsageError, match="write https://") as caught:
        esdedup.open(name)
    assert "s3cr" not in str(caught.value)
    ran = run_command("index", "-", "--db", name, input='{"text": "x"}\n', status=2)
    assert "write https://" in ran.err
    assert "s3cr" not in ran.err
    assert list(folder.iterdir()) == []


def test_names_of_files(tmp_path: Path) -> None:
    for name in ("a@b.db", "a b", "2024-01-01T10:00.db", "x:y"):
        esdedup.open(tmp_path / name).close()


def test_a_connection_holds_no_password_in_its_address() -> None:
    with pytest.raises(esdedup.UsageError, match=r"'http://\*\*\*@h:1'") as caught:
        esdedup.Connection((f"http://elastic:{SECRET}@h:1",))
    assert "s3cr" not in str(caught.value)
    found = connection_to("http://elastic:pass%2Cword@h:1")
    assert (found.password, found.shown) == ("pass,word", "http://h:1")
    assert "pass" not in repr(found)


@given(st.text(), st.sampled_from(["", "http://", "https://", "http://[", "://"]), st.text())
@example(user="", scheme="http://", host="[::1]]:9200")
@example(user="a", scheme="http://", host="\uff0e:9200")
@example(user="0/", scheme="http://", host="")
def test_any_address(user: str, scheme: str, host: str) -> None:
    address = f"{scheme}{user}:hunter2@{host}"
    try:
        shown = repr(connection_to(address))
    except esdedup.UsageError as error:
        shown = str(error)
    assert "hunter2" not in shown
