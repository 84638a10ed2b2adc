"""Recipes for other engines keep every row, and are quick, whatever the ids and the texts are."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.docs.test_pages import require_packages
from tools.docs import ROOT, Runner, blocks_of, commands_in, in_process

EQUAL = "The council met on Monday to discuss the budget for the coming year."
TRAM = "The tram stops at noon on all days of this week but Sunday."
DOCUMENTS = [
    ("a", EQUAL), (None, EQUAL + " It was long."), (None, "Heavy rain fell on the coast."),
    ("b", TRAM), ("b", "No ferry leaves the old harbour in winter."), ("c", None), (None, None),
    ("d", "!!!"), ("e", "!!!"), ("f", ""), ("g", ""), (None, TRAM),
    *((f"n{number}", EQUAL) for number in range(5_000)),
]  # fmt: skip
ROWS = [{"row_of": row, "id": id, "text": text} for row, (id, text) in enumerate(DOCUMENTS)]
EVERY = [*range(len(ROWS))]
KEPT = [0, *range(1, 8), 9, 10]
"""Of 5,001 equal texts, of two with words, and of two without, the first one stays."""
Recipes = dict[str, Callable[[dict[str, Any]], object]]


def of_polars(names: dict[str, Any]) -> None:
    assert names["sketched"]["row_of"].to_list() == EVERY
    assert [row[:2] for row in names["shared"].rows()] == [(0, 1)]
    assert names["bands"].height < 100


def of_duckdb(names: dict[str, Any]) -> None:
    made = names["connection"].sql("select row_of from sketched").fetchall()
    assert sorted(row for (row,) in made) == EVERY


def same_rows(names: dict[str, Any]) -> None:
    assert names["sketched"]["row_of"].to_pylist() == EVERY


def of_daft(names: dict[str, Any]) -> None:
    assert sorted(names["sketched"].to_pydict()["row_of"]) == EVERY


def of_ray(names: dict[str, Any]) -> None:
    assert sorted(row["row_of"] for row in names["sketched"].take_all()) == EVERY


def kept(names: dict[str, Any]) -> None:
    assert names["kept"]["row_of"].to_pylist() == KEPT


def kept_of_dataset(names: dict[str, Any]) -> None:
    assert names["kept"]["row_of"][:] == KEPT


def marked(names: dict[str, Any]) -> None:
    rows = [row["row_of"] for row in names["marked"] if not row["duplicate"]]
    assert rows == KEPT


def joined(names: dict[str, Any]) -> None:
    """The first text of the id "b" is no document, so that the last row duplicates none."""
    rows = [row for (row,) in names["clean"].project("row_of").order("row_of").fetchall()]
    assert rows == [*KEPT, 11]


RECIPES: dict[str, Recipes] = {
    "arrow": {"import polars": of_polars, "import duckdb": of_duckdb, "import datasets": same_rows},
    "frames": {
        "import duckdb, pandas, polars": kept,
        "kept = esdedup.dedup(notes": kept_of_dataset,
        "marked =": marked,
        "anti join": joined,
    },
}
ENGINES: Recipes = {"import daft": of_daft, "import ray": of_ray}


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    with Runner(tmp_path, None, False) as runner:
        pa.parquet.write_table(pa.Table.from_pylist(ROWS), "notes.parquet", row_group_size=1_000)
        yield runner


@pytest.mark.parametrize("page", RECIPES)
def test_recipes_lose_no_rows(runner: Runner, page: str) -> None:
    run_recipes(runner, page, RECIPES[page], engines=False)


# Ray warns of its own names.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_recipes_of_ray_and_daft_lose_no_rows(runner: Runner) -> None:
    run_recipes(runner, "arrow", ENGINES, engines=True)


def run_recipes(runner: Runner, page: str, recipes: Recipes, engines: bool) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text("utf-8")
    require_packages(text, engines)
    blocks = [block for block in blocks_of(text) if block.runs]
    first = next(at for at, block in enumerate(blocks) if 'notes.parquet")' in block.body)
    left = {**recipes}
    for block in blocks[first + 1 :]:
        if (block.mark == "engines") != engines:
            continue
        if block.kind == "console":
            # Records without a text are reported by the exit status.
            for command, _ in commands_in(block.body):
                assert in_process(shlex.split(command)[1:])[0] in (0, 1)
            continue
        if "notes.parquet" in block.body:
            runner.run(block)
        for sign in [sign for sign in left if sign in block.body]:
            left.pop(sign)(runner.names)
    assert not left


@pytest.mark.nightly
def test_the_recipe_of_spark_loses_no_rows(runner: Runner, java: None) -> None:
    text = (ROOT / "docs" / "how-to" / "spark.md").read_text("utf-8")
    news, recipe = [
        block for block in blocks_of(text) if "getOrCreate" in block.body or "mapIn" in block.body
    ]
    runner.run(news)
    spark = runner.names["spark"]
    try:
        runner.names["news"] = spark.createDataFrame(pa.Table.from_pylist(ROWS))
        runner.run(recipe)
        made = runner.names["sketched"].select("row_of").collect()
    finally:
        spark.stop()
    assert sorted(row.row_of for row in made) == EVERY
