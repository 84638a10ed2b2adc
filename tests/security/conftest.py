"""A secured server of each product."""

import uuid
from collections.abc import Iterator

import pytest

from esdedup.admin.roles import Product
from esdedup.stores.waits import Waits
from tests.helpers.waits import waits
from tests.security.scenarios import filled
from tests.security.users import Secured


@pytest.fixture(params=["secured_elasticsearch", "secured_opensearch"], scope="session")
def secured(request: pytest.FixtureRequest) -> Secured:
    """Each of the products in turn; tests use indices and users of their own."""
    product: Product = request.param.removeprefix("secured_")
    return Secured(product, request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def name(secured: Secured) -> Iterator[str]:
    """Yield the name of an index and of a user for one test."""
    name = f"rights-{uuid.uuid4().hex[:10]}"
    with waits(Waits(mapping=0.0, settle=0.0, switch=0.0)):
        yield name
    secured.forget(name)


@pytest.fixture(scope="module")
def filled_index(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An index with tokens, which the tests of a module share."""
    made = f"rights-{uuid.uuid4().hex[:10]}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("filled"))
        filled(secured, made)
        secured.judge(made)
    yield made
    secured.forget(made)
