"""Show the arguments of a docstring as a list in the Python reference.

An extension of griffe, which mkdocs.yml names. Docstrings have a line `name: description` for each
argument or field, which Markdown would join to one paragraph.
"""

import re

from griffe import Extension, Object

_ARGUMENT = re.compile(r"^(\*{0,2}\w+(?:, \w+)*): (?=\S)")


class DocstringLists(Extension):
    """Turn the lines of arguments in each docstring into a list."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = with_lists(obj.docstring.value)


def with_lists(docstring: str) -> str:
    """Return the docstring with a list item for each line `name: description`.

    A paragraph is a list if its first line is an argument. Lines that follow an argument belong to
    it, up to the next argument, a blank line, or a sentence that says what is raised.
    """
    lines: list[str] = []
    in_list = after_blank = False
    for line in docstring.splitlines():
        argument = _ARGUMENT.match(line)
        if argument and (in_list or after_blank):
            in_list = True
            line = f"- `{argument[1]}`: {line[argument.end() :]}"
        elif in_list and re.match(r"Raises? ", line):
            in_list = False
            lines.append("")
        elif in_list and line.strip():
            line = f"  {line}"
        else:
            in_list = False
        lines.append(line)
        after_blank = not line.strip()
    return "\n".join(lines)
