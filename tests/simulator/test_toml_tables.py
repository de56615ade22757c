"""The reader of TOML tables: types, bounds beside the fields, defaults, and errors that name the key."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pytest

from simulator.errors import ConfigError
from simulator.toml_tables import Between, Choice, Tables, legal_values, read_toml


@dataclass(frozen=True)
class Port:
    """An example with a field of every kind."""

    name: str
    width: Annotated[int, Between(1, 1024, "bytes")]
    delay: Annotated[int, Between(0, 100, "cycles")] = 0
    share: Annotated[float, Between(0, 1, exclusive=True)] = 1.0
    policy: Annotated[str, Choice(("oldest", "newest"))] = "oldest"
    ordered: bool | None = None
    rows: tuple[Annotated[int, Choice((64, 128))], ...] = (64,)
    pair: tuple[int, int] = (0, 0)
    at: (
        Annotated[int, Between(-1, 9)] | tuple[Annotated[int, Between(0, 9)], ...] | Annotated[str, Choice(("any",))]
    ) = -1
    found: int = field(default=7, metadata={"toml": False})


def tables(text: str) -> Tables:
    return Tables("x.toml", tomllib.loads(text))


def test_every_type_and_default() -> None:
    read = tables(
        '[port]\nname = "a"\nwidth = 8\ndelay = 0\nshare = 1\npolicy = "newest"\nordered = false\n'
        "rows = [128, 64]\npair = [-3, 4]\nat = [0, 1]"
    ).record(Port, "port")
    assert read == Port("a", 8, 0, 1.0, "newest", False, (128, 64), (-3, 4), (0, 1))
    assert isinstance(read.share, float)
    assert tables('name = "a"\nwidth = 1').record(Port, "") == Port("a", 1)
    assert tables('[port]\nname = "a"\nwidth = 1\nat = "any"').record(Port, "port").at == "any"
    assert tables('[port]\nname = "a"').record(Port, "port", width=3).width == 3


@pytest.mark.parametrize(
    ("line", "key", "legal"),
    [
        ("width = 0", "width", "an integer from 1 to 1,024 (bytes)"),
        ("width = 1025", "width", "an integer from 1 to 1,024 (bytes)"),
        ("width = true", "width", "an integer"),
        ("delay = -1", "delay", "an integer from 0 to 100 (cycles)"),
        ("delay = 1.0", "delay", "an integer"),
        ("share = 0", "share", "a number above 0 and up to 1"),
        ("share = nan", "share", "a number above 0"),
        ("share = true", "share", "a number above 0"),
        ('policy = "youngest"', "policy", "one of oldest, newest"),
        ('name = ""', "name", "a text"),
        ("ordered = 1", "ordered", "true or false"),
        ("rows = []", "rows", "a list of 64, 128"),
        ("rows = [64, 64]", "rows", "a list of 64, 128"),
        ("rows = [32]", "rows", "a list of 64, 128"),
        ("pair = [1]", "pair", "a list of 2, each an integer"),
        ("pair = [[1], {}]", "pair", "a list of 2"),
        ("at = -2", "at", "an integer from -1 to 9, or a list of an integer from 0 to 9, or one of any"),
        ('at = "all"', "at", "one of any"),
        ("wdith = 3", "wdith", "name, width"),
        ("found = 3", "found", "name, width"),
    ],
)
def test_what_is_wrong(line: str, key: str, legal: str) -> None:
    name, value = line.split(" = ")
    values = {"name": '"a"', "width": "1", name: value}
    text = "[port]\n" + "\n".join(f"{name} = {value}" for name, value in values.items())
    with pytest.raises(ConfigError) as caught:
        tables(text).record(Port, "port")
    assert caught.value.key == f"port.{key}"
    assert caught.value.legal.startswith(legal) or legal in caught.value.legal


def test_missing_tables_and_keys() -> None:
    for text, key, word in (
        ("", "port", "missing table"),
        ("port = 3", "port", "not a table"),
        ('[port]\nname = "a"', "port.width", "missing"),
    ):
        with pytest.raises(ConfigError, match=word) as caught:
            tables(text).record(Port, "port")
        assert caught.value.key == key


def test_arrays_of_tables() -> None:
    read = tables('[[port]]\nname = "a"\nwidth = 1\n[[port]]\nname = "b"\nwidth = 2').records(Port, "port")
    assert [(place, port.name, port.width) for place, port in read] == [("port[0]", "a", 1), ("port[1]", "b", 2)]
    assert tables("").records(Port, "port", optional=True) == []
    with pytest.raises(ConfigError, match="at least one"):
        tables("port = []").records(Port, "port")
    with pytest.raises(ConfigError) as caught:
        tables('[[port]]\nname = "a"\nwidth = 0').records(Port, "port")
    assert caught.value.key == "port[0].width"


def test_files(tmp_path: Path) -> None:
    """By name or by path; a name that is nearly one is offered."""
    (tmp_path / "first.toml").write_text("a = 1")
    assert read_toml("first", tmp_path, "example", "docs/x.md").values == {"a": 1}
    assert read_toml(tmp_path / "first.toml", tmp_path, "example", "docs/x.md").values == {"a": 1}
    with pytest.raises(ConfigError, match="no such example, did you mean 'first'"):
        read_toml("frist", tmp_path, "example", "docs/x.md")
    (tmp_path / "bad.toml").write_text("a = ")
    with pytest.raises(ConfigError, match="not a TOML file"):
        read_toml("bad", tmp_path, "example", "docs/x.md")


def test_words() -> None:
    assert legal_values(Annotated[str, Choice(("f16", ""), "types")]) == "types: f16, ''"
