"""Configs with a base, and values that a user sets over those of a config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import ConfigError, load_config
from simulator.chip.config import Config
from simulator.chip.earlier import NO_EFFECT
from tests.support.cases import over

ROW = "sparse, full k, f32"
SPARSE = [f"sparse, full k, {kind}" for kind in ("f32", "f16", "s32")]


def intervals(config: Config) -> dict[str, int]:
    return {row.name: row.interval for row in config.tensor}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_file_changes_only_what_it_says_of_its_base(tmp_path: Path) -> None:
    """Only what differs: values, rows by their name, new rows first, tables and rows that are left out; sources say
    what was changed, and by whom."""
    first = write(
        tmp_path,
        "first.toml",
        f"""base = "h100_sxm"
        [shared]
        latency = 30
        [chip]
        sms = 144
        source = "published: a die"
        [sequences]
        remove = true
        [[tensor]]
        name = "{ROW}"
        interval = 4
        [[tensor]]
        name = "m8n8k16"
        remove = true
        """,
    )
    (tmp_path / "deep").mkdir()
    second = write(
        tmp_path / "deep",
        "second.toml",
        """base = "../first.toml"
        name = "mine"
        title = "A chip"
        [shared]
        latency = 30
        queue = 24
        [[tensor]]
        name = "first of all"
        sparse = true
        rows = 16
        row_bytes = 32
        inputs = ["f16"]
        accumulators = ["f32"]
        latency = 9
        interval = 3
        source = "assumed: new"
        [[tensor]]
        name = "sparse, full k, s32"
        remove = ["port"]
        """,
    )
    h100, one, two = load_config("h100_sxm"), load_config(first), load_config(second)
    assert (one.name, two.name, two.title, two.bases) == (
        "first",
        "mine",
        "A chip",
        (str(tmp_path / "deep" / "../first.toml"), h100.path),
    )
    assert one.title == f"{h100.title}, changed in first.toml"
    assert (one.shared, two.shared) == (replace(h100.shared, latency=30), replace(h100.shared, latency=30, queue=24))
    assert one.memory == h100.memory
    assert one.sources["memory"] == h100.sources["memory"]
    assert one.sequences is None
    assert set(intervals(h100)) - set(intervals(one)) == {"m8n8k16"}
    assert next(row.name for row in two.tensor) == "first of all"
    assert intervals(two)[ROW] == 4
    before = {row.name: row for row in h100.tensor}["sparse, full k, s32"]
    assert before.port
    assert replace(before, port=0) in two.tensor
    was = h100.sources["shared"]
    assert one.sources["shared"] == f"assumed: what if latency = 30 (first.toml); otherwise {was}"
    assert two.sources["shared"] == f"assumed: what if queue = 24 (second.toml); otherwise {one.sources['shared']}"
    assert one.sources["chip"] == "published: a die"
    assert (one.status(f"tensor {ROW}"), one.status(f"tensor {SPARSE[1]}")) == ("assumed", "measured")


@over(
    ("text", "named", "words"),
    [
        ('base = "own.toml"', "base", ("their own base", "own.toml -> ")),
        ('base = "h100_smx"', "base", ("no such config", "did you mean 'h100_sxm'")),
        ('base = "no/such.toml"', "base", ("no such config",)),
        ("base = 3", "base", ("3", "path of a TOML file")),
        ('base = "h100_sxm"\n[[tensor]]\nname = "sparse, full k f32"', "tensor[0].name", (f"did you mean '{ROW}'",)),
        ('base = "h100_sxm"\n[[tensor]]\ninterval = 3', "tensor[0].name", ("missing",)),
        (
            f'base = "h100_sxm"\n[[tensor]]\nname = "{ROW}"\nintervall = 3',
            "tensor.sparse_full_k_f32.intervall",
            ("did you mean 'interval'",),
        ),
        ('base = "h100_sxm"\n[energy2]\nremove = true', "energy2", ("no such table",)),
        ('base = "h100_sxm"\n[shared]\nremove = ["latenci"]', "shared.remove", ("'latenci'", "latency")),
        ('base = "h100_sxm"\n[l2]\nremove = true\ncapacity = 3', "l2", ("remove = true beside capacity",)),
        (
            'base = "h100_sxm"\n[[tensor]]\nname = "x"\nbefore = "dense"\nsource = "assumed: x"',
            "tensor[0].before",
            ("no row 'dense'", "dense, small k, f32"),
        ),
        ('base = "h100_sxm"\n[chip]\nremove = true', "chip", ("missing table",)),
    ],
)
def test_wrong_changes_of_a_base_name_path_and_key(
    tmp_path: Path, text: str, named: str, words: tuple[str, ...]
) -> None:
    path = write(tmp_path, "own.toml", text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert (caught.value.path, caught.value.key) == (str(path), named)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_new_rows_come_before_the_row_that_they_name() -> None:
    """A new row stands where its `before` says: the B300's integers behind the classes of plain metadata."""
    names = [row.name for row in load_config("b300").tensor]
    new = [name for name in names if name not in intervals(load_config("b200"))]
    assert new == [f"{kind} s8, {size} k" for kind in ("dense", "sparse") for size in ("full", "small")]
    first = names.index(new[0])
    assert all(name.startswith("plain sparse") for name in names[:first])
    assert names[first : first + 4] == new


def test_chains_of_bases_that_are_too_long_or_wrong_are_refused(tmp_path: Path) -> None:
    for number in range(20):
        write(tmp_path, f"c{number}.toml", f'base = "c{number - 1}.toml"' if number else 'base = "h100_sxm"')
    assert load_config(tmp_path / "c14.toml").chip == load_config("h100_sxm").chip
    with pytest.raises(ConfigError, match="more than 16 files"):
        load_config(tmp_path / "c19.toml")
    write(tmp_path, "c0.toml", 'base = "h100_sxm"\n[chip]\nsms = 0')
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c3.toml")
    assert caught.value.path == str(tmp_path / "c0.toml")


@over(
    ("overrides", "texts"),
    [
        (["tensor.sparse_full_k.interval=4"], ("tensor.sparse_full_k.interval=4",)),
        ({"tensor.sparse_full_k.interval": np.int64(4)}, ("tensor.sparse_full_k.interval=4",)),
        (["tensor.sparse_full_*.interval = x1/2"], ("tensor.sparse_full_*.interval=x1/2",)),
        (["tensor.sparse_full_k.interval=3", "tensor.sparse_full_k.interval=4"], ("tensor.sparse_full_k.interval=4",)),
    ],
)
def test_overrides_address_rows_by_prefix_and_pattern(overrides: Any, texts: tuple[str, ...]) -> None:
    """All rows whose slugs begin so; they are assumed, and nothing else is."""
    before, config = load_config("h100_sxm"), load_config("h100_sxm", overrides)
    assert intervals(config) == intervals(before) | dict.fromkeys(SPARSE, 4)
    assert config.overrides == texts
    assert config.label == f"h100_sxm with {texts[0]}"
    changed = {table for table, source in config.sources.items() if source != before.sources[table]}
    assert changed == {f"tensor {name}" for name in SPARSE}
    assert all(config.sources[table].startswith("assumed: what if interval = 4 (set by") for table in changed)


def test_overrides_take_values_of_every_type() -> None:
    config = load_config(
        "h100_sxm",
        {
            "issue.policy": "oldest",
            "loop.drain": False,
            "chip.clock_mhz": "x3/2",
            "tensor.m8n8k16.inputs": ("u8", "s8"),
        },
    )
    assert (config.issue.policy, config.loop.drain, config.chip.clock_mhz) == ("oldest", False, 2745)
    assert config.tensor[-1].inputs == ("u8", "s8")
    again = load_config("h100_sxm", config.overrides)
    assert again == config
    more = load_config(config, ["chip.sms=66"])
    assert more.overrides == (*config.overrides, "chip.sms=66")
    assert more.issue.policy == "oldest"
    assert load_config("h100_sxm", ["chip.sms=132"]).status("chip") == "published"
    assert load_config("h100_sxm", ["chip.sms=66", "chip.source=published: us"]).sources["chip"] == "published: us"
    with pytest.raises(ConfigError, match="changed since it was loaded"):
        load_config(replace(config, name="other"), ["chip.sms=66"])


@over(
    ("text", "named", "words"),
    [
        ("chip.smss=4", "chip.smss", ("did you mean 'sms'",)),
        ("sms=4", "sms", ("did you mean 'chip.sms'",)),
        ("chp.sms=4", "chp.sms", ("did you mean 'chip.sms'",)),
        ("chip.sms=0", "chip.sms", ("0", "from 1 to 1,024")),
        ("chip.sms=1.5", "chip.sms", ("1.5", "an integer")),
        ("chip.sms=x1/7", "chip.sms", ("132/7 is no whole number",)),
        ("chip=3", "chip", ("a table", "chip.sms")),
        ("chip.sms.count=3", "chip.sms.count", ("'chip.sms' is a value",)),
        ("tensor.sparse_fll_k.interval=4", "tensor.sparse_fll_k.interval", ("did you mean 'tensor.sparse_full_k'",)),
        ("tensor.sparse_full_k_f32.intervall=4", "tensor.sparse_full_k_f32.intervall", ("did you mean 'interval'",)),
        ("tensor.sparse_full_k.interval=0", "tensor.sparse_full_k_f32.interval", ("an integer from 1",)),
        ("tensor.interval=4", "tensor.interval", ("no row 'interval'", "sparse_full_k_f32")),
        ("issue.policy=odlest", "issue.policy", ("'odlest'", "oldest")),
        ("issue.policy=x2", "issue.policy", ("no number",)),
        ("base=a100", "base", ("unknown key",)),
        ("chip.sms", "chip.sms", ("KEY=VALUE",)),
        ("=3", "=3", ("KEY=VALUE",)),
        ("chip.sms=", "chip.sms=", ("KEY=VALUE",)),
    ],
)
def test_wrong_overrides_name_the_key(text: str, named: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("h100_sxm", [text])
    assert caught.value.path.startswith("h100_sxm")
    assert caught.value.key == named
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_keys_that_have_no_effect_any_more_are_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of an earlier version means what it means without them, and says so once; `--set` refuses them."""
    text = 'base = "h100_sxm"\nname = "mine"\n[fetch]\nline = 8\n[pipe]\nturnaround = 3\ngap = 5\n'
    row = '[[tensor]]\nname = "dense, small k, f32"\nspare = 2\n'
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(text + row)
    new.write_text('base = "h100_sxm"\nname = "mine"\n[pipe]\ngap = 5\n')
    for _ in range(2):
        config = load_config(old)
    assert (config.pipe, config.tensor) == (load_config(new).pipe, load_config(new).tensor)
    warned = [record.getMessage() for record in caplog.records]
    assert warned == [f"{old}: fetch, pipe.turnaround, tensor.spare: {NO_EFFECT}"]
    for key in ("fetch.line", "pipe.integer", "tensor.sparse_full_k.ports", "sequences.return_again"):
        with pytest.raises(ConfigError, match="no effect any more") as caught:
            load_config("h100_sxm", [f"{key}=1"])
        assert caught.value.key == key


def test_a_config_without_registers_has_those_of_the_measured_chip(tmp_path: Path) -> None:
    """As files of 0.1.0: the table is there, counts as assumed, and its keys can be set."""
    path = tmp_path / "mine.toml"
    path.write_text('base = "a100"\n[registers]\nremove = true\n')
    config = load_config(path, ["registers.stages=4"])
    assert config.registers == replace(load_config("h100_sxm").registers, stages=4)
    assert config.status("registers") == "assumed"
