"""An engine and images for the tests of containers, which all run in one process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import STAND_IN
from tests.servers.provide import refusing
from tools.servers.engine import Engine, running_engine
from tools.servers.images import PYTHON_IMAGE, provide_image

ROOT = Path(__file__).parents[2]
TAG = "esdedup-test"

Provide = Callable[[str], None]


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    """A Docker engine: the one of this machine, or one that ends with these tests."""
    with refusing(), running_engine() as found:
        yield found


@pytest.fixture(scope="package")
def _stand_ins() -> set[str]:
    """The images of this run that were made here."""
    return set()


@pytest.fixture(scope="package")
def provide(engine: Engine, _stand_ins: set[str]) -> Provide:
    """Make an image ready under its official name."""

    def provide(name: str) -> None:
        with refusing():
            if provide_image(engine, name):
                _stand_ins.add(name)

    return provide


@pytest.fixture(scope="package")
def image(engine: Engine, provide: Provide) -> str:
    """Our own image, built as users build it."""
    provide(PYTHON_IMAGE)
    engine.docker("build", "--tag", TAG, str(ROOT))
    return TAG


@pytest.fixture(autouse=True)
def _told_of_stand_ins(request: pytest.FixtureRequest, _stand_ins: set[str]) -> Iterator[None]:
    yield
    request.node.user_properties += [(STAND_IN, name) for name in sorted(_stand_ins)]
