"""Reports on an index, and helps to choose its parameters.

`Index` uses these names, which import at their first use: a search needs none of them.
"""

from typing import TYPE_CHECKING

from esdedup.lazy import import_name

if TYPE_CHECKING:
    from esdedup.analysis.explain import Explanation, explain_pair
    from esdedup.analysis.report import Report, report_on
    from esdedup.analysis.sampling import Sample, draw_sample
    from esdedup.analysis.templates import template_warnings

__all__ = [
    "Explanation", "Report", "Sample", "draw_sample", "explain_pair", "report_on",
    "template_warnings",
]  # fmt: skip

_MODULES = {
    "analysis.explain": "Explanation explain_pair",
    "analysis.report": "Report report_on",
    "analysis.sampling": "Sample draw_sample",
    "analysis.templates": "template_warnings",
}


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> object:
        return import_name(name, __name__, _MODULES)
