"""Configs: those that come with tcsim, and an error with path and key for every way in which one can be wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest

from isa import mma_form, mma_forms, parse_target
from isa.forms.tcgen05_rows import KIND_ROWS
from simulator import ConfigError, load_config
from simulator.chip.config import Config, config_names
from simulator.chip.energy import TensorEnergy, WgmmaEnergy
from simulator.chip.layers import with_own_energies
from simulator.chip.reader import STATUSES
from simulator.chip.tables import POLICIES, TensorClass
from simulator.chip.tcgen05 import Kind, Shape, Sparse
from simulator.resources import folder
from tests.support.cases import over

SHIPPED = (folder("configs") / "h100_sxm.toml").read_text()
OPTIONAL = ("schedule", "pipe")  # without them a config has neutral ones
TABLES = ("chip", "sm", "issue", "loop", "alu", "barrier", "shared", "registers")


def optional_tables(config: Config) -> set[str]:
    names = ("memory", "mbarrier", "l2", "hbm", "launch", "operands", "sequences", "energy", "wgmma", "cluster")
    return {name for name in names if getattr(config, name) is not None}


def own_energies(config: Config) -> set[str]:
    """Names of the sources of [[energy.tensor]] and [[energy.wgmma]] in the config's own file or its base; others scale
    those of another config."""
    if config.energy is None or with_own_energies(config.name) is None:
        return set()
    rows: dict[str, Sequence[TensorEnergy | WgmmaEnergy]]
    rows = {"tensor": config.energy.tensor, "wgmma": config.energy.wgmma}
    return {f"energy {table} {row.name}" for table, tables in rows.items() for row in tables}


@over("name", config_names())
def test_shipped_configs_have_all_tables_with_sources(name: str) -> None:
    """By name and by path; every table has a source with a status and something behind it."""
    config = load_config(name)
    assert config == load_config(folder("configs") / f"{name}.toml")
    assert (config.name, config.target) == (name, parse_target(config.target))
    assert set(config.sources) - set(OPTIONAL) == {
        *TABLES, *(f"tensor {c.name}" for c in config.tensor), *tcgen05_tables(config), *optional_tables(config),
        *own_energies(config),
    }  # fmt: skip
    for table, source in config.sources.items():
        assert config.status(table) in STATUSES
        assert len(source.split(":", 1)[1].strip()) > 10, table
    assert config.issue.policy in POLICIES
    assert config.chip.sms * config.chip.clock_mhz > 0


def tcgen05_tables(config: Config) -> set[str]:
    """Names of the sources of `[tcgen05]` and what belongs to it."""
    if config.tcgen05 is None:
        return set()
    rows: dict[str, Sequence[Kind | Shape | Sparse]]
    rows = {"kind": config.tcgen05.kinds, "shape": config.tcgen05.shapes, "sparse": config.tcgen05.sparse}
    named = {f"tcgen05 {table} {row.name}" for table, tables in rows.items() for row in tables}  # type: ignore[attr-defined]
    return named | {"tcgen05", "tcgen05.copy", "tcgen05.tmem", "tcgen05.mbarrier"}


def test_known_chips_are_among_the_config_names() -> None:
    assert {"h100_sxm", "a100", "b200", "b300", "jetson_thor"} <= set(config_names())


def write(path: Path, text: str) -> Path:
    file = path / "chip.toml"
    file.write_text(text)
    return file


def edited(table: str, key: str, value: str | None) -> str:
    """The shipped file with one entry of a table changed, or taken out. `table` may be "" (top) or "[[tensor]]" (the
    first class)."""
    header = table if table.startswith("[[") else f"[{table}]"
    start = SHIPPED.index(f"\n{header}\n") if table else 0
    line = re.compile(rf"^{key} = .*$", re.MULTILINE)
    match = line.search(SHIPPED, start)
    assert match is not None, (table, key)
    return SHIPPED[: match.start()] + (f"{key} = {value}" if value is not None else "") + SHIPPED[match.end() :]


@pytest.mark.parametrize("table", TABLES)
def test_numbers_are_those_of_the_file(tmp_path: Path, table: str) -> None:
    """Each integer of a table, changed, changes that field and no other."""
    before = load_config(write(tmp_path, SHIPPED))
    part = getattr(before, table)
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, int) and not isinstance(value, bool) and field.default is MISSING:  # of what it says
            after = load_config(write(tmp_path, edited(table, field.name, str(value + 1))))
            assert after == replace(before, **{table: replace(part, **{field.name: value + 1})})


M8N8 = [c.name for c in load_config("h100_sxm").tensor].index("m8n8k16")
# (table, key, value, key that the error names, words)
WRONG: list[tuple[str, str, str | None, str, tuple[str, ...]]] = [
    ("", "name", None, "name", ("missing",)),
    ("", "title", '""', "title", ("a text",)),
    ("", "target", "90", "target", ("90", "a text")),
    ("", "target", '"sm_91"', "target", ("unknown target 'sm_91'", "sm_90")),
    ("chip", "sms", None, "chip.sms", ("missing",)),
    ("chip", "sms", "0", "chip.sms", ("0", "an integer from 1 to 1,024")),
    ("chip", "sms", "132.0", "chip.sms", ("132.0", "integer")),
    ("chip", "sms", "true", "chip.sms", ("True", "integer")),
    ("chip", "sms", '"132"', "chip.sms", ("'132'", "integer")),
    ("chip", "sms", "10000000000", "chip.sms", ("integer",)),
    ("chip", "clock_mhz", "-1830", "chip.clock_mhz", ("-1830", "above 0 and up to 10,000 (MHz)")),
    ("chip", "clock_mhz", "nan", "chip.clock_mhz", ("a number above 0",)),
    ("chip", "clock_mhz", "inf", "chip.clock_mhz", ("a number above 0",)),
    ("chip", "clock_mhz", "1979-05-27", "chip.clock_mhz", ("a number above 0",)),
    ("chip", "source", None, "chip.source", ("missing", "measured: ...", "assumed: ...")),
    ("chip", "source", '"a datasheet"', "chip.source", ("'a datasheet'", "published: ...")),
    ("chip", "source", '"guessed: by me"', "chip.source", ("'guessed: by me'",)),
    ("chip", "source", '"measured"', "chip.source", ("'measured'",)),
    ("chip", "source", "3", "chip.source", ("3",)),
    ("sm", "sub_cores", "0", "sm.sub_cores", ("from 1 to",)),
    ("sm", "shared_bytes", "-1", "sm.shared_bytes", ("-1",)),
    ("issue", "policy", '"youngest"', "issue.policy", ("'youngest'", *POLICIES)),
    ("issue", "policy", "1", "issue.policy", ("one of oldest",)),
    ("loop", "cycles", "-1", "loop.cycles", ("-1", "an integer")),
    ("loop", "drain", '"yes"', "loop.drain", ("'yes'", "true or false")),
    ("loop", "drain", "1", "loop.drain", ("true or false",)),
    ("alu", "latency", "0", "alu.latency", ("from 1 to",)),
    ("alu", "interval", "-2", "alu.interval", ("-2",)),
    ("barrier", "latency", "[12]", "barrier.latency", ("[12]",)),
    ("shared", "latency", "{ a = 1 }", "shared.latency", ("integer",)),
    ("shared", "cycles", "0", "shared.cycles", ("0", "from 1 to 100,000 (cycles)")),
    ("shared", "queue", "1000000", "shared.queue", ("1000000", "to 4,096 (entries)")),
    ("shared", "latency", "1000000000", "shared.latency", ("1000000000", "to 100,000 (cycles)")),
    ("sm", "sub_cores", "1000000", "sm.sub_cores", ("from 1 to 16",)),
    ("sm", "warps", "1000", "sm.warps", ("from 1 to 128",)),
    ("schedule", "nop", "20", "schedule.nop", ("20", "at most the longest wait, stall = 15")),
    ("[[tensor]]", "name", "7", "tensor[0].name", ("a text",)),
    ("[[tensor]]", "name", '"m8n8k16"', f"tensor[{M8N8}].name", ("two tables of tensor named 'm8n8k16'",)),
    ("[[tensor]]", "sparse", None, "tensor[0].sparse", ("missing",)),
    ("[[tensor]]", "sparse", "0", "tensor[0].sparse", ("true or false",)),
    ("[[tensor]]", "rows", None, "tensor[0].rows", ("missing",)),
    ("[[tensor]]", "latency", "0", "tensor[0].latency", ("from 1 to",)),
    ("[[tensor]]", "interval", "1.5", "tensor[0].interval", ("1.5",)),
    ("[[tensor]]", "inputs", "[]", "tensor[0].inputs", ("element types", "bf16")),
    ("[[tensor]]", "inputs", '"f16"', "tensor[0].inputs", ("element types",)),
    ("[[tensor]]", "inputs", '["f16", "f63"]', "tensor[0].inputs", ("f64", "element types")),
    ("[[tensor]]", "inputs", "[1]", "tensor[0].inputs", ("element types",)),
    ("[[tensor]]", "source", '"assumed"', "tensor[0].source", ("'assumed'",)),
    ("[[tensor]]", "rows", "16\nstall = 0", "tensor[0].stall", ("0", "from 1 to")),
    ("[[tensor]]", "rows", '16\nordered = "yes"', "tensor[0].ordered", ("'yes'", "true or false")),
    ("[[tensor]]", "rows", '16\nkinds = ["mxf4"]\nkids = 1', "tensor[0].kids", ("unknown key", "did you mean 'kinds'")),
    ("[[tensor]]", "rows", '16\nkinds = ["f8f4"]', "tensor[0].kinds", ("['f8f4']", "f8f6f4", "mxf4nvf4.block_scale")),
    ("[[tensor]]", "rows", "16\nkinds = []", "tensor[0].kinds", ("a list of",)),
]


@over(("table", "key", "value", "named", "words"), WRONG, ids=[f"{row[3]}={row[2]}" for row in WRONG])
def test_wrong_values_name_path_and_key(
    tmp_path: Path, table: str, key: str, value: str | None, named: str, words: tuple[str, ...]
) -> None:
    path = write(tmp_path, edited(table, key, value))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    error = caught.value
    assert (error.path, error.key) == (str(path), named)
    assert str(error).startswith(f"{path}: {named}: ")
    assert all(word in str(error) for word in words), str(error)


SM120 = ["rtx5070ti", "rtx5080", "rtx5090", "rtx_pro_6000"]
ORDERED, PLAIN = "mma.sp::ordered_metadata.sync.aligned", "mma.sp.sync.aligned"


@pytest.mark.parametrize("name", SM120)
def test_sm_120_tensor_classes_by_kind_and_metadata(name: str) -> None:
    """sm_120: accumulator, kind, types and order of the metadata decide the time; every form has one but f64, b1 and
    m8n8k4."""
    config = load_config(name)
    slow = 16 if name == "rtx_pro_6000" else 32

    def found(opcode: str) -> TensorClass:
        tensor = config.tensor_class(mma_form(opcode, "sm_120a"))
        assert tensor is not None
        return tensor

    mma, sparse = "mma.sync.aligned.m16n8k32.row.col", f"{ORDERED}.m16n8k64.row.col"
    scaled = f"{mma}.kind::mxf8f6f4.block_scale.scale_vec::1X.f32"
    assert found(f"{mma}.f32.e4m3.e4m3.f32").interval == found(f"{mma}.kind::f8f6f4.f32.e4m3.e4m3.f32").interval == slow
    assert found(f"{mma}.f16.e4m3.e4m3.f16").interval == found(f"{sparse}.f16.e4m3.e4m3.f16").interval == 16
    assert found(f"{mma}.kind::f8f6f4.f16.e2m1.e2m1.f16").interval == slow
    assert found(f"{scaled}.e4m3.e4m3.f32.ue8m0").interval == found(f"{scaled}.e4m3.e2m1.f32.ue8m0").interval == 16
    assert found(f"{scaled}.e3m2.e2m1.f32.ue8m0").interval == slow
    ordered, plain = (found(f"{opcode}.m16n8k32.row.col.f32.f16.f16.f32") for opcode in (ORDERED, PLAIN))
    assert (ordered.interval, ordered.blocking, plain.blocking) == (slow, False, True)
    assert plain.latency > 4 * ordered.latency
    assert found(f"{ORDERED}.m16n8k32.row.col.f32.bf16.bf16.f32") == found(
        f"{PLAIN}.m16n8k32.row.col.f32.bf16.bf16.f32"
    )
    for form in mma_forms().values():
        if form.supports(config.target) and config.tensor_class(form) is None:
            assert form.a_type.name in ("f64", "b1") or form.blocks > 1, form.opcode


BLACKWELL = (folder("configs") / "b200.toml").read_text()


# (old text of configs/b200.toml, new text, key that the error names, words)
WRONG_TCGEN05: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("operand_bytes = 128\n", "", "tcgen05.operand_bytes", ("missing",)),
    ("queue = 32", "queue = 0", "tcgen05.queue", ("from 1 to",)),
    ("queue = 32", "qeue = 32", "tcgen05.qeue", ("unknown key", "did you mean 'queue'")),
    ("[tcgen05.tmem]\nbytes = 128", "[tcgen05.tmem]\nbytes = -1", "tcgen05.tmem.bytes", ("-1",)),
    ("[tcgen05.mbarrier]", "[tcgen05.mbarier]", "tcgen05.mbarier", ("unknown key", "did you mean 'mbarrier'")),
    ('kinds = ["f16"]\nrate = 4096', 'kinds = ["f61"]\nrate = 4096', "tcgen05.kind[0].kinds", ("['f61']", "f8f6f4")),
    ('kinds = ["f16"]\nrate = 4096', 'kinds = ["f16", "f16"]\nrate = 4096', "tcgen05.kind[0].kinds", ("a list of",)),
    ('kinds = ["f16"]\nrate = 4096', "kinds = []\nrate = 4096", "tcgen05.kind[0].kinds", ("a list of",)),
    ('kinds = ["f16"]\nrate = 4096', 'kinds = ["f16"]\nrate = 0', "tcgen05.kind[0].rate", ("from 1 to",)),
    (
        "latency = [-1, -3]",
        "latency = [-1]",
        "tcgen05.kind[3].latency",
        ("a list of 2, each an integer from -1,000 to 1,000 (cycles)",),
    ),
    ("latency = [-1, -3]", "latency = -1", "tcgen05.kind[3].latency", ("-1",)),
    ("cta_group = 2\nrows = [256]", "cta_group = 3\nrows = [256]", "tcgen05.shape[3].cta_group", ("one of 1, 2",)),
    ("cta_group = 2\nrows = [256]", "cta_group = 2\nrows = [64]", "tcgen05.shape[3].rows", ("[64]", "128, 256")),
    ("cta_group = 2\nrows = [256]", "cta_group = 2\nrows = [true]", "tcgen05.shape[3].rows", ("a list of",)),
    (
        'name = "one SM, 64 rows"',
        'name = "one SM, 128 rows"',
        "tcgen05.shape[1].name",
        ("two tables of tcgen05.shape named",),
    ),
    ("ws = true\nrows = [128]", "ws = 1\nrows = [128]", "tcgen05.shape[4].ws", ("true or false",)),
    (
        'kinds = ["f16"]\nrate = 8192',
        'kinds = ["f16"]\nrte = 8192',
        "tcgen05.sparse[0].rte",
        ("unknown key", "did you mean 'rate'"),
    ),
    ('source = "assumed: as bar.sync', 'source = "guess: as bar.sync', "tcgen05.mbarrier.source", ("assumed: ...",)),
    ('source = "assumed: as mxf4', 'src = "assumed: as mxf4', "tcgen05.kind[6].src", ("unknown key",)),
]


@over(("old", "new", "named", "words"), WRONG_TCGEN05, ids=[f"{row[2]}-{row[1][-12:]}" for row in WRONG_TCGEN05])
def test_wrong_tcgen05_tables_name_the_key(
    tmp_path: Path, old: str, new: str, named: str, words: tuple[str, ...]
) -> None:
    assert BLACKWELL.count(old) == 1
    path = write(tmp_path, BLACKWELL.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert (caught.value.path, caught.value.key) == (str(path), named)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
    ("text", "named"),
    [("tcgen05 = 3\n", "tcgen05"), ("[tcgen05]\n", "tcgen05.source"), ("tcgen05.kind = 1\n", "tcgen05.source")],
)
def test_a_tcgen05_entry_that_is_no_table_is_refused(tmp_path: Path, text: str, named: str) -> None:
    whole = SHIPPED + "\n" + text if text.startswith("[") else text + SHIPPED
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, whole))
    assert caught.value.key == named


@pytest.mark.parametrize("name", ["b200", "b300", "jetson_thor"])
def test_blackwell_has_every_kind_of_its_target(name: str) -> None:
    """A rate, dense and sparse, for every kind that the instruction set gives the chip, and for no other; each M of PTX
    ISA 9.0, 9.7.16.2.1."""
    config = load_config(name)
    tables = config.tcgen05
    assert tables is not None
    for row in KIND_ROWS:
        has = config.target in row.targets
        assert (tables.kind(row.kind) is not None) == has, row.kind
        assert (tables.sparse_rate(row.kind) is not None) == has, row.kind
    for cta_group, m, ws in (
        (1, 64, False),
        (1, 128, False),
        (2, 128, False),
        (2, 256, False),
        (1, 32, True),
        (1, 64, True),
        (1, 128, True),
    ):
        assert tables.shape(cta_group, m, ws) is not None
    assert all(config.status(f"tcgen05 sparse {row.name}") == "assumed" for row in tables.sparse)


@pytest.mark.parametrize("value", ['[["f32"]]', "[{ f32 = 1 }]"])
def test_nested_lists_are_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError, match="element types"):
        load_config(write(tmp_path, edited("[[tensor]]", "accumulators", value)))


@pytest.mark.parametrize(
    ("text", "named", "words"),
    [
        ("\nspeed = 3\n", "speed", ("unknown key",)),
        ("\ntagret = 'sm_90'\n", "tagret", ("unknown key", "did you mean 'target'")),
        ("\n[chpi]\n", "chpi", ("unknown key", "did you mean 'chip'")),
        ("\n[chip]\nclock_mzh = 1\n", "chip.clock_mzh", ("unknown key", "did you mean 'clock_mhz'", "sms")),
        ("\n[[tensor]]\nintervall = 1\n", "tensor[0].intervall", ("unknown key", "did you mean 'interval'")),
    ],
)
def test_unknown_keys_are_refused(tmp_path: Path, text: str, named: str, words: tuple[str, ...]) -> None:
    header = text.strip().split("\n")[0]
    at = SHIPPED.find(f"\n{header}\n") if header.startswith("[") else 0
    whole = (
        text + SHIPPED
        if at <= 0 and not header.startswith("[")
        else SHIPPED + text
        if at < 0
        else SHIPPED[:at] + text + SHIPPED[at + len(header) + 2 :]
    )
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, whole))
    assert caught.value.key == named
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("table", [table for table in TABLES if table != "registers"])
def test_missing_tables_are_refused(tmp_path: Path, table: str) -> None:
    start = SHIPPED.index(f"\n[{table}]\n")
    end = SHIPPED.index("\n[", start + 1)
    without = SHIPPED[:start] + SHIPPED[end:]
    for text, word in ((without, "missing table"), (f"{table} = 3\n" + without, "not a table")):
        with pytest.raises(ConfigError, match=word) as caught:
            load_config(write(tmp_path, text))
        assert caught.value.key == table
        assert f"[{table}] with " in caught.value.legal


@pytest.mark.parametrize("text", ["", "tensor = []\n", "tensor = 3\n", "tensor = [1]\n", "[tensor]\nname = 'x'\n"])
def test_configs_without_tensor_classes_are_refused(tmp_path: Path, text: str) -> None:
    head = SHIPPED.split("[[tensor]]", 1)[0]
    with pytest.raises(ConfigError, match="at least one") as caught:
        load_config(write(tmp_path, head + text if text.startswith("[") else text + head))
    assert caught.value.key == "tensor"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"name = \n", ("not a TOML file", "line 1")),
        (b"name = 'x'\nname = 'y'\n", ("not a TOML file",)),
        (b"[chip\n", ("not a TOML file",)),
        (b"\xff\xfe", ("not UTF-8",)),
        (b"# caf\xe9\n", ("not UTF-8",)),
        (b"\x00", ("not a TOML file",)),
        (b"", ("name", "missing")),
        (b"a = " + b"[" * 5000, ("not a TOML file",)),
    ],
)
def test_unreadable_files_are_refused(tmp_path: Path, data: bytes, words: tuple[str, ...]) -> None:
    path = tmp_path / "chip.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.path == str(path)
    assert all(word in str(caught.value) for word in words), str(caught.value)


WRONG_NAMES = ["h100", "h100_smx", "nonsense", "", ".", "no/such/file.toml", "h100_sxm.toml", "x" * 5000, "a\0b"]


@over("name", WRONG_NAMES)
def test_unknown_names_list_the_legal_ones(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(name)
    assert "h100_sxm" in str(caught.value)
    assert "a100" in str(caught.value)


def test_misspelt_names_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'h100_sxm'"):
        load_config("h100_smx")
    with pytest.raises(ConfigError, match="directory") as caught:
        load_config(tmp_path)
    assert caught.value.path == str(tmp_path)
