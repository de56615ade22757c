"""Fault models, each against its words computed element by element in another way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.arithmetic.convert import to_float64
from simulator.errors import ConfigError, TraceError
from simulator.faults.campaign import read_campaign
from simulator.faults.models import Edits
from simulator.faults.table import Faults, checksum, read_blocks, read_head
from simulator.faults.targets.mma import MmaTarget
from simulator.faults.targets.program import ProgramTarget

Tcsim = Callable[..., tuple[int, str, str]]
OPCODE = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"


def _drawn(opcode: str, **group: Any) -> tuple[MmaTarget, Faults, Edits]:
    campaign = read_campaign(opcode, group)
    target = campaign.subject
    assert isinstance(target, MmaTarget)
    rows = np.concatenate(list(campaign.faults()))
    return target, rows, target.edits(rows)


def _matrix(target: MmaTarget, site: str, changes: list[tuple[int, int, int, int]]) -> tuple[Any, Any]:
    """The operand [row, column] before and after changes, read element by element."""
    words = target.golden[site][0].copy()
    operand, mask = target.layout.operands[site], (1 << target.layout.operands[site].bits) - 1

    def read() -> Any:
        rows, columns = (range(size) for size in operand.shape[:2])
        places = [[operand.places(row, column)[0] for column in columns] for row in rows]
        return np.array([[int(words[p.word, p.lane]) >> p.low & mask for p in line] for line in places])

    before = read()
    for word, lane, _, after in changes:
        words[word, lane] = after
    return before, read()


BURSTS = [("a", "rows"), ("a", "columns"), ("b", "rows"), ("e", "columns"), ("d", "rows")]


@pytest.mark.parametrize(("site", "axis"), BURSTS)
def test_bursts_along_elements(site: str, axis: str) -> None:
    target, rows, edits = _drawn(OPCODE, site=site, kind="flip", along=axis, span=3, count=12)
    for number in range(len(rows)):
        before, after = _matrix(target, site, edits.rows(number).changes())
        r, c = np.nonzero(before != after)
        assert len(r) == 3
        assert len(set((c if axis == "rows" else r).tolist())) == 1
        assert np.diff(np.sort(r if axis == "rows" else c)).tolist() == [1, 1]
        assert len({int(x) for x in (before ^ after)[r, c]}) == 1, "the same bit of each element"
    total = target.layout.operands[site].shape[0 if axis == "rows" else 1]
    assert read_campaign(OPCODE, {"site": site, "along": axis, "span": 3}).counts()[0][1] == (
        len(target.sites[site].bits("live")) * (total - 2) // total
    )


def test_bursts_along_lanes_and_words() -> None:
    _, rows, edits = _drawn(OPCODE, site="b", along="lanes", span=4, count=20)
    for number, row in enumerate(rows):
        changes = edits.rows(number).changes()
        assert [lane for _, lane, _, _ in changes] == list(range(int(row["lane"]), int(row["lane"]) + 4))
        assert {before ^ after for _, _, before, after in changes} == {int(row["mask"])}
    _, rows, edits = _drawn(OPCODE, site="a", along="words", span=2, count=20)
    assert all(len(edits.rows(number).changes()) == 2 for number in range(len(rows)))


@pytest.mark.parametrize(
    ("group", "holds"),
    [
        ({"kind": "nan"}, np.isnan),
        ({"kind": "infinity"}, np.isposinf),
        ({"kind": "zero"}, lambda x: x == 0),
        ({"kind": "constant", "constant": -1.5}, lambda x: x == -1.5),
        ({"kind": "constant", "constant": "0x7bff"}, lambda x: x == 65504),
        ({"kind": "random", "low": 2, "high": 4, "count": 40}, lambda x: (x >= 2) & (x <= 4)),
    ],
)
def test_elements_become(group: dict[str, Any], holds: Callable[[Any], Any]) -> None:
    target, rows, edits = _drawn(OPCODE, site="a", **group)
    values = set()
    for number in range(0, len(rows), max(1, len(rows) // 20)):
        before, after = _matrix(target, "a", edits.rows(number).changes())
        changed = after[before != after]
        assert len(changed) <= 1
        values |= set(to_float64(changed.astype(np.uint32), "f16").tolist())
    assert values
    assert np.asarray(holds(np.array(sorted(values, key=str)))).all()
    if group["kind"] == "random":
        assert len(values) > 5


def test_own_models(tmp_path: Path) -> None:
    for model, becomes in (
        ("bits ^ (1 << bit)", lambda bits, bit: bits ^ 1 << bit),
        ("~bits", lambda bits, bit: ~bits & 0xFFFF),
        ("where(bit > 7, bits >> 1, bits + bit)", lambda bits, bit: bits >> 1 if bit > 7 else bits + bit & 0xFFFF),
    ):
        target, rows, edits = _drawn(OPCODE, site="b", model=model, count=50)
        for number, row in enumerate(rows):
            low = (int(row["mask"]) & -int(row["mask"])).bit_length() - 1
            word = int(target.golden["b"][0][row["word"], row["lane"]])
            right = becomes(word >> low & 0xFFFF, int(row["value"])) << low | word & ~(0xFFFF << low)
            assert [after for *_, after in edits.rows(number).changes()] == [right]
    file = tmp_path / "models.py"
    file.write_text("def double(bits, random):\n    return bits | random\n")
    campaign = read_campaign(OPCODE, {"site": "b", "model": f"{file}:double", "count": 5})
    assert campaign.subject.edits(np.concatenate(list(campaign.faults()))).faults == 5
    for text, words in (
        ("def double(bits, word):\n    return bits\n", "'word' is no argument of a model"),
        ("def other(bits):\n    return bits\n", "double: is no function of the file"),
        ("def double(bits):\n    return bits * 0.5\n", "gives float64"),
        ("def double(bits):\n    raise KeyError('x')\n", "KeyError"),
        ("import nothing_there\n", r"^[^:]*models\.py: line 1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("def double(bits):\n    raise SystemExit(3)\n", "line 2: SystemExit"),
        ("def double(bits):\n    return np.zeros(len(bits) + 3, int)\n", r"gives \[5\] numbers for 2 faults"),
        ("def double(bits):\n    return [[1], [2, 3]]\n", "gives no array"),
        ("def double(bits, /):\n    return bits\n", "'bits' is no argument of a model that is given by name"),
        ("double = int\n", "does not say which arguments it takes"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=words):
            list(read_campaign(OPCODE, {"site": "b", "model": f"{file}:double", "count": 5}).faults())


def test_a_list_whose_model_has_changed_is_refused(tcsim: Tcsim, tmp_path: Path) -> None:
    file, listed = tmp_path / "m.py", tmp_path / "l.csv"
    file.write_text("def f(bits):\n    return bits + 1\n")
    given = ("--site", "a", "--model", f"{file}:f", "--faults", "5", "--output", listed)
    assert tcsim("faults", "list", OPCODE, *given)[0] == 0
    assert tcsim("faults", "run", listed, "--output", tmp_path / "r.csv")[0] == 0
    file.write_text("def f(bits):\n    return bits + 2\n")
    code, _, said = tcsim("faults", "run", listed, "--output", tmp_path / "r2.csv")
    assert (code, said.count("\n")) == (2, 1)
    assert "has changed since the list was made" in said


def test_patterns(tmp_path: Path) -> None:
    file = tmp_path / "beam.csv"
    file.write_text(
        "pattern,probability,row,column,mask\nline,3,0,0,0x1\nline,3,0,1,0x1\nline,3,0,2,0x1\nbox,1,0,0,0x80\nbox,1,1,1,0x80\n"
    )
    target, rows, edits = _drawn(OPCODE, site="d", patterns=str(file), count=400)
    assert 0.65 < (rows["span"] == 0).mean() < 0.85, "three of four are lines"
    for number in range(0, 400, 20):
        before, after = _matrix(target, "d", edits.rows(number).changes())
        r, c = np.nonzero(before != after)
        shape = (np.ptp(r), np.ptp(c)) if len(r) else (0, 0)
        assert shape in ([(0, 2), (0, 1), (0, 0)] if rows["span"][number] == 0 else [(1, 1), (0, 0)])
    file.write_text("pattern,probability,row,column,mask\nline,3,0,0,0\n")
    with pytest.raises(ConfigError, match="line 2"):
        read_campaign(OPCODE, {"site": "d", "patterns": str(file), "count": 4})


def test_models_and_patterns_of_later_groups(tcsim: Tcsim, tmp_path: Path) -> None:
    """Each group has its own model and its own patterns, also of a file with one pattern."""
    (tmp_path / "one.csv").write_text("pattern,probability,row,column,mask\nonly,1,0,0,0x8\n")
    (tmp_path / "two.csv").write_text("pattern,probability,row,column,mask\nonly,1,0,0,0x10\n")
    groups = ('site = "c"', 'site = "b"\nmodel = "bits ^ 2"', 'site = "a"\nmodel = "bits ^ 4"',
              'site = "b"\npatterns = "one.csv"', 'site = "b"\npatterns = "two.csv"')  # fmt: skip
    text = "".join(f"[[faults]]\n{group}\ncount = 20\n" for group in groups)
    campaign, listed = tmp_path / "c.toml", tmp_path / "l.csv"
    campaign.write_text(f'[campaign]\n[subject]\nopcode = "{OPCODE}"\n{text}')
    assert tcsim("faults", "list", campaign, "--output", listed) == (0, "", "")
    rows, target = np.concatenate(list(read_blocks(read_head(listed)))), read_campaign(campaign).subject
    edits = target.edits(rows)
    for group, mask in ((1, 2), (2, 4), (3, 8), (4, 16)):
        mine = rows["group"][edits.fault] == group
        low = np.bitwise_count((rows["mask"] & -rows["mask"].astype(np.int64)) - 1)[edits.fault[mine]].astype(np.int64)
        assert (edits.invert[mine] == mask << low).all()
        assert mine.sum() == 20


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("p,1\n", "line 2: 2 columns in place of 5"),
        ("p,1,0,0,0x100000000\n", "mask of 1 to 32 bits"),
        ("p,1e308,0,0,1\nq,1e308,0,0,1\n", "probabilities without a sum"),
    ],
)
def test_patterns_that_are_none(tmp_path: Path, rows: str, words: str) -> None:
    file = tmp_path / "p.csv"
    file.write_text(f"pattern,probability,row,column,mask\n{rows}")
    with pytest.raises(ConfigError, match=words):
        read_campaign(OPCODE, {"site": "d", "patterns": str(file), "count": 4})


def test_patterns_wider_than_their_elements(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("pattern,probability,row,column,mask\np,1,0,0,0x10000\n")
    with pytest.raises(ConfigError, match="mask 0x10000 of elements of 16 bits"):
        read_campaign(OPCODE, {"site": "a", "patterns": str(file), "count": 4}).counts()


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ({"site": "adder", "kind": "flip", "along": "lanes", "span": 2}, "along lanes of site adder; legal: none"),
        ({"site": "selector", "kind": "selector", "along": "rows", "span": 2}, "along rows of site selector"),
        ({"site": "a", "kind": "random", "low": -1e308, "high": 1e308, "count": 3}, "numbers from -1e"),
        ({"site": "a", "high": 2.0}, "beside kind flip"),
    ],
)
def test_keys_that_an_instruction_cannot_have(group: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_campaign(OPCODE, group).counts()


def test_a_row_that_names_nothing_leaves_nothing(tcsim: Tcsim, tmp_path: Path) -> None:
    listed, results = tmp_path / "l.csv", tmp_path / "r.csv"
    assert tcsim("faults", "list", OPCODE, "--site", "a", "--faults", "5", "--output", listed)[0] == 0
    lines = listed.read_text().splitlines()
    cells = lines[-1].split(",")[:-1]
    cells[lines[-6].split(",").index("word")] = "99"
    lines[-1] = f"{','.join(cells)},{checksum(','.join(cells))}"
    listed.write_text("\n".join([*lines, ""]))
    code, _, said = tcsim("faults", "run", listed, "--output", results)
    assert (code, said.count("\n")) == (2, 1)
    assert "fault 4: word: word 99 of site a; legal: 0 to 3" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["l.csv"]


def test_a_lost_write_leaves_c() -> None:
    target, rows, edits = _drawn(OPCODE, site="d", kind="lost")
    for number in range(0, len(rows), 16):
        (word, lane, _, after), *more = edits.rows(number).changes()
        assert not more
        assert after == int(target.golden["c"][0][word, lane])
    with pytest.raises(ConfigError, match="model lost of site a"):
        read_campaign(OPCODE, {"site": "a", "kind": "lost"}).counts()


def test_a_doubled_write_of_d_reaches_registers_one_address_line_away() -> None:
    target, rows, edits = _drawn(OPCODE, site="d", kind="doubled")
    d = target.golden["d"][0]
    assert len(rows) == d.size * 2
    for number in range(0, len(rows), 7):
        (word, lane, before, after), *more = edits.rows(number).changes()
        row = rows[number]
        assert not more
        assert (word ^ int(row["word"])).bit_count() == 1
        assert (lane, before, after) == (int(row["lane"]), int(d[word, lane]), int(d[row["word"], lane]))
    results = target.run(rows)
    assert (results["elements"] == 1).all()
    rows["along"], rows["span"] = 1, 2
    with pytest.raises(ConfigError, match="along words of site d"):
        target.run(rows)
    with pytest.raises(ConfigError, match="model doubled of site a"):
        read_campaign(OPCODE, {"site": "a", "kind": "doubled"}).counts()


def test_intervals_weigh_the_time_of_each_word() -> None:
    """The weights of a warp's words add up to its time; a fault strikes alike anywhere in its interval."""
    campaign = read_campaign("digits/f16", {"site": "registers", "at": "intervals", "where": "warps=2 lanes=5 bits=9"})
    target = campaign.subject
    assert isinstance(target, ProgramTarget)
    rows = np.concatenate(list(campaign.faults()))
    words = np.unique(rows["word"])
    assert rows["weight"].sum() == len(words) * target.instructions(2)
    assert (rows["weight"] > 1).any()
    chosen = rows[rows["weight"] > 4][:: max(1, (rows["weight"] > 4).sum() // 12)].copy()
    earlier = chosen.copy()
    earlier["at"] -= (chosen["weight"] / 2).astype(np.int64)
    now, then = target.run(chosen), target.run(earlier)
    for name in ("outcome", "elements", "max_ulp"):
        assert (now[name] == then[name]).all()


def test_a_damaged_row_is_named(tcsim: Tcsim, tmp_path: Path) -> None:
    listed = tmp_path / "l.csv"
    assert tcsim("faults", "list", OPCODE, "--site", "a", "--output", listed)[0] == 0
    assert len(np.concatenate(list(read_blocks(read_head(listed))))) == 4096
    lines = listed.read_text().splitlines()
    lines[-7] = lines[-7].replace(",a,", ",b,")
    listed.write_text("\n".join([*lines, ""]))
    with pytest.raises(TraceError, match=f":{len(lines) - 6}:.*check of the row"):
        list(read_blocks(read_head(listed)))
