"""Groups of templates: --split-templates takes them apart, report and dedup warn of them."""

from pathlib import Path
from typing import Literal, TypedDict

import pytest

import esdedup
from benchmarks.lib import families
from benchmarks.own.templates import grouped, indexed, scored
from tests.helpers.commands import run_command
from tests.helpers.indices import fill_index
from tests.helpers.places import Place, local

LETTER = (
    "We thank you for your order number {number} of this week, {name}. The goods leave our store"
    " within two days and reach you by mail. Please keep this letter, and write to us if anything"
    " is missing or damaged. You can send back what you do not want within thirty days, and we pay"
    " the price back at once."
)
NAMES = ["Anna Berg", "Ben Castillo", "Carla Duval", "David Eriksen"]


class Setting(TypedDict):
    method: Literal["components"]
    threshold: float


SETTING: Setting = {"method": "components", "threshold": 0.6}


def letters(count: int = 24) -> list[dict[str, str]]:
    """Letters, and a copy of the first and of the sixth."""
    texts = [
        LETTER.format(number=5_000 + row, name=NAMES[row % len(NAMES)]) for row in range(count)
    ]
    texts += [f"Forwarded by the office. {texts[0]}", texts[5].upper().replace(".", " !")]
    return [{"id": str(row), "text": text} for row, text in enumerate(texts)]


def copies(count: int = 24) -> list[dict[str, str]]:
    """Copies of one letter with a word replaced each."""
    words = LETTER.split()
    texts = [" ".join([*words[:row], "other", *words[row + 1 :]]) for row in range(count)]
    return [{"id": f"c{row}", "text": text} for row, text in enumerate(texts)]


@pytest.mark.on_every_server
def test_templates_are_split_and_copies_found(place: Place) -> None:
    fill_index(place, letters())
    with esdedup.open(place.target, place.index) as index:
        (whole,) = index.groups(**SETTING)
        split = [*index.groups(**SETTING, split_templates=True)]
    assert len(whole.members) == 25
    found = {group.representative: [each.id for each in group.members] for group in split}
    assert found == {"0": ["24"], "5": ["25"]}
    assert [group.members[0].similarity for group in split] == [pytest.approx(0.93, abs=0.03), 1.0]
    options = ["--method", "components", "-t", "0.6", "--split-templates"]
    ran = run_command("dedup", *options, *place.options)
    assert [line["duplicates"][0]["id"] for line in ran.json] == ["24", "25"]
    assert "template" not in ran.err


@local
def test_a_large_group_of_copies_stays_whole_and_is_not_warned_of(place: Place) -> None:
    fill_index(place, copies())
    with esdedup.open(place.target, place.index) as index:
        (whole,), (split,) = index.groups(**SETTING), index.groups(**SETTING, split_templates=True)
        assert len(whole.members) == len(split.members) == 23
    ran = run_command("report", "-o", "page.html", *place.options)
    assert ran.json[0]["largest"][0]["template"] is None
    assert "template" not in ran.err + run_command("dedup", *place.options).err


@pytest.mark.on_every_server
def test_report_and_dedup_warn_of_templates(place: Place) -> None:
    fill_index(place, letters())
    options = ["--method", "components", "-t", "0.6", *place.options]
    ran = run_command("report", "-o", "page.html", *options)
    (line,) = ran.json
    (group,) = line["largest"]
    template = group["template"]
    assert template["places"] == 2
    assert template["examples"][0] == ["5000", "anna berg"]
    (warning,) = [each for each in line["warnings"] if "template" in each]
    assert warning.startswith("The group of 0 (26 documents) looks like a template:")
    assert "same 2 places (5000 | anna berg;" in warning
    assert warning in ran.err
    assert "looks like a template" in Path("page.html").read_text("utf-8")
    assert warning in run_command("dedup", *options).err
    split = run_command("report", "-o", "page.html", "--split-templates", *options)
    assert [each["template"] for each in split.json[0]["largest"]] == [None, None]
    assert split.json[0]["grouping"]["split_templates"] is True


@pytest.mark.parametrize(
    ("kind", "count", "least"),
    [(families.ITEMS, 60, 0.98), (families.HELD_OUT, 20, 0.95)],
    ids=["items", "held out"],
)
def test_documents_of_templates_are_kept_and_copies_found(
    kind: dict[str, str], count: int, least: float, tmp_path: Path
) -> None:
    texts = families.labelled(kind, count, 2 * count, seed=4)
    distinct = [text for text, kind in zip(texts.texts, texts.kind, strict=True) if not kind]
    assert len({*distinct}) == len({*texts.source}) == len(distinct)
    with indexed(texts, esdedup.Scheme(), tmp_path) as index:
        found = scored(texts, grouped(index, **SETTING, split_templates=True))
    assert min(found["kept"], found["found"]) >= least
