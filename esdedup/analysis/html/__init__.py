"""HTML pages, each one file: no scripts, nothing loaded, and a policy in it that forbids both.

Every value is escaped, so that a text that holds markup shows as text, and control characters in
it are shown too.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from esdedup.text.characters import visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_SETTING = re.compile(r"`([a-z][a-z0-9_]*)`")


def page(name: str, values: Mapping[str, object]) -> str:
    """Return the page of a template of this folder, with the styles of `base.html`.

    values: of the names in the template.
    """
    style = _templates().joinpath("style.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    template = environment().get_template(f"{name}.html")
    # The policy allows this one style, by its digest.
    return template.render(values, style=style, style_digest=digest)


def head() -> bytes:
    """Return how every page begins, by which it is recognised."""
    return _templates().joinpath("base.html").read_bytes().partition(b"{{")[0]


@functools.cache
def environment(package: str = "esdedup.analysis.html", folder: str = ".") -> Environment:
    """Return the templates in a folder of a package, and those of this folder of other names.

    A string that is not marked as safe is escaped and `visible`.
    """
    # Imported here, because few commands make a page.
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def read(name: str) -> str | None:
        for directory in (files(package).joinpath(folder), _templates()):
            file = directory.joinpath(name)
            if file.is_file():
                return file.read_text("utf-8")
        return None

    templates = Environment(
        loader=FunctionLoader(read),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["with_settings"] = _with_settings
    return templates


def _with_settings(message: str) -> Markup:
    """Return a message of the library, which names settings in backticks, as a page shows it."""
    from markupsafe import Markup, escape

    return Markup(_SETTING.sub(r"<code>\1</code>", str(escape(visible(message)))))


def _templates() -> Traversable:
    return files("esdedup.analysis.html")
