"""HTML pages, each one file: no scripts, nothing loaded, and a policy in it that forbids both.

Every value is escaped, so that a text that holds markup shows as text, and control characters in
it are shown too.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from esdedup.text.characters import visible

if TYPE_CHECKING:
    from jinja2 import Environment


def page(name: str, **values: Any) -> str:
    """Return the page of a template of this folder, with the styles of `base.html`."""
    style = _own().joinpath("style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    template = environment().get_template(f"{name}.html")
    # The policy allows this one style, by its digest.
    return template.render(values, style=style, style_digest=digest)


def head() -> bytes:
    """Return how every page begins, by which it is recognised."""
    return _own().joinpath("base.html").read_bytes().partition(b"{{")[0]


@functools.cache
def environment(package: str = "esdedup.analysis.html", folder: str = ".") -> Environment:
    """Return the templates in a folder of a package, and those of this folder of other names.

    A string that is not marked as safe is escaped and `visible`.
    """
    # Imported here, because few commands make a page.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def read(name: str) -> str | None:
        found = (each.joinpath(name) for each in (files(package).joinpath(folder), _own()))
        return next((each.read_text("utf-8") for each in found if each.is_file()), None)

    return Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _own() -> Traversable:
    return files("esdedup.analysis.html")
