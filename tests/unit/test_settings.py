"""Settings as keywords of calls: each `TypedDict` has what its dataclass declares."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

import esdedup
from esdedup import Connection, Grouping, Index, Limits, UsageError
from esdedup.analysis.weighing import Weighing, WeighingSettings
from esdedup.arguments import settings_of
from esdedup.groups.groups import GroupingSettings
from esdedup.index import indices
from esdedup.sketch.limits import PairSettings, QuerySettings
from esdedup.stores.connection import ConnectionSettings, connection_to
from tests.helpers.indices import open_index
from tests.helpers.packages import imported

CALLS: dict[Callable[..., object], type] = {
    Index.similar: QuerySettings,
    Index.request_body: QuerySettings,
    Index.verify: QuerySettings,
    Index.pairs: PairSettings,
    Index.groups: GroupingSettings,
    Index.group: GroupingSettings,
    Index.dedup: GroupingSettings,
    Index.report: GroupingSettings,
    Index.weights: WeighingSettings,
    esdedup.pairs: PairSettings,
    esdedup.group: GroupingSettings,
    esdedup.dedup: GroupingSettings,
    esdedup.weights: WeighingSettings,
    esdedup.open: ConnectionSettings,
    indices: ConnectionSettings,
    connection_to: ConnectionSettings,
}


def of_settings(kind: type, use: str | None = None) -> Mapping[str, object]:
    """The types of the values that a call accepts, as the dataclass declares them."""
    types: dict[str, object] = {}
    for name, setting in settings_of(kind, use).items():
        types[name] = setting.kind
        if setting.display.repeatable:
            types[name] = setting.kind | str | Sequence[str]
        elif setting.display.parse is not None:
            types[name] = setting.kind | str
    return types


@pytest.mark.parametrize(
    ("keywords", "declared"),
    [
        (QuerySettings, of_settings(Limits, "query")),
        (PairSettings, of_settings(Limits, "pairs")),
        (GroupingSettings, of_settings(Grouping)),
        (WeighingSettings, of_settings(Weighing)),
        (ConnectionSettings, {x.name: x.type for x in fields(Connection) if x.name != "urls"}),
    ],
)
def test_keywords_are_those_of_the_dataclass(keywords: type, declared: Mapping[str, Any]) -> None:
    assert get_type_hints(keywords) == declared


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__qualname__)
def test_a_call_names_its_settings_to_editors_and_to_readers(call: Callable[..., object]) -> None:
    check_call(call, CALLS[call])


def test_calls_of_spark_name_their_settings() -> None:
    imported("pyspark")
    from esdedup import spark

    calls: dict[Callable[..., object], type] = {
        spark.pairs: PairSettings,
        spark.groups: GroupingSettings,
        spark.dedup: GroupingSettings,
        spark.clean: GroupingSettings,
        spark.read_index: ConnectionSettings,
        spark.write_groups: ConnectionSettings,
    }
    for call, keywords in calls.items():
        check_call(call, keywords)


def check_call(call: Callable[..., object], keywords: type) -> None:
    (unpacked,) = {"settings", "credentials"} & {*get_type_hints(call)}
    assert get_args(get_type_hints(call)[unpacked]) == (keywords,)
    names = get_type_hints(keywords)
    if keywords is not ConnectionSettings:
        # What `help` shows.
        assert {*names} <= {*inspect.signature(call).parameters}
    if call is not connection_to:
        lines = re.findall(r"^ *([a-z_]+(?:, [a-z_]+)*): ", call.__doc__ or "", re.MULTILINE)
        assert {*names} <= {name for line in lines for name in line.split(", ")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda index: index.similar("a b", limits=Limits(), threshold=0.5),
            "`threshold` can't be combined with `limits`",
        ),
        (
            lambda index: index.pairs(limits=Limits(), sketch="minhash"),
            "`sketch` can't be combined with `limits`",
        ),
        (
            lambda index: index.groups(grouping=Grouping(), keep="last"),
            "`keep` can't be combined with `grouping`",
        ),
        (
            lambda index: index.dedup("delete", groups=index.groups(), exact=True),
            "`exact` can't be combined with `groups`",
        ),
        (
            lambda index: esdedup.dedup(["a b"], grouping=Grouping(), threshold=0.5),
            "`threshold` can't be combined with `grouping`",
        ),
    ],
)
def test_a_setting_beside_the_whole_is_an_error(
    call: Callable[[Index], object], message: str
) -> None:
    with open_index(":memory:", ["a b c"]) as index, pytest.raises(UsageError, match=message):
        call(index)


def test_a_connection_is_to_one_address_or_to_several() -> None:
    address = "https://localhost:9200"
    connection = Connection(address, api_key="id:key")
    assert connection == Connection([address], api_key="id:key")
    assert hash(connection) == hash(Connection((address,), api_key="id:key"))
    assert connection.addresses == (address,)
    assert Connection([address, "https://other:9200"]).shown == f"{address}, https://other:9200"
    with pytest.raises(UsageError, match="give either a URL or a cloud id"):
        Connection("")
    with pytest.raises(UsageError, match="give either a URL or a cloud id"):
        Connection([])
    wrong: Any = 9200
    with pytest.raises(UsageError, match="urls: give a list, not a single int"):
        Connection(wrong)
    with pytest.raises(UsageError, match="URL 'h'"):
        Connection("h")
