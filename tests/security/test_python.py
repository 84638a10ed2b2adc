"""A program that is given an API key or a password, and the authority of a secured server."""

import pytest

import esdedup
from tests.helpers.commands import words
from tests.security.users import Secured
from tests.servers.secured import ADMIN, PASSWORD


def test_an_api_key_of_the_rights_of_a_search_suffices(secured: Secured, filled_index: str) -> None:
    if secured.product == "opensearch":
        # It has no API keys.
        return
    privileges = {"names": [filled_index], "privileges": ["read", "view_index_metadata"]}
    body = {"name": "search", "role_descriptors": {"search": {"index": [privileges]}}}
    key = secured.ask("POST", "/_security/api_key", body)
    for api_key in (key["encoded"], f"{key['id']}:{key['api_key']}"):
        with esdedup.open(
            secured.url, filled_index, api_key=api_key, ca_certs=secured.ca_file
        ) as index:
            matches = index.similar(words(1))
            assert {match.id for match in matches} == {"d2", "d3"}
            with pytest.raises(esdedup.EsdedupError) as refused:
                index.add([{"id": "new", "text": words(1)}])
            assert api_key not in str(refused.value)


def test_a_user_with_a_password_searches(secured: Secured, filled_index: str) -> None:
    with esdedup.open(
        secured.url, filled_index, username=ADMIN, password=PASSWORD, ca_certs=secured.ca_file
    ) as index:
        assert {match.id for match in index.similar(words(1))} == {"d2", "d3"}
