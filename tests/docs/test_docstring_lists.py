"""The Python reference shows the arguments of a docstring as a list."""

from textwrap import dedent

import pytest

pytest.importorskip("griffe", reason="python -m pip install --group docs")

from tools.docstring_lists import with_lists


def test_lines_of_arguments_become_a_list_and_other_lines_stay() -> None:
    docstring = dedent("""\
        Return the pairs: all of them.

        The order
        follows: the ids.

        threshold: minimum similarity,
        0 to 1.
        left, right: the ids.
        Raises UsageError for values
        out of range.""")
    assert with_lists(docstring) == dedent("""\
        Return the pairs: all of them.

        The order
        follows: the ids.

        - `threshold`: minimum similarity,
          0 to 1.
        - `left, right`: the ids.

        Raises UsageError for values
        out of range.""")
