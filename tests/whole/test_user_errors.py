"""What users get wrong on the command line: by rule, every option of every verb with values that it cannot have; and by
hand, with what is said (tests/support/mistakes.py). What callers from Python get wrong is in
tests/simulator/test_bad_arguments.py.

Each ends with one line and exit code 2 (1 where the answer is no), and leaves nothing behind; where a value happens to
be legal, with an answer. `python -m tests.whole.test_user_errors` prints how many there are.
"""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from simulator.cli.verbs import VERBS, Parser
from tests.support.cases import PROGRAMS, exhaustive
from tests.support.mistakes import MISTAKES, prepared, prepared_by_hand
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
MMA = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
CAPTURE = f"{GOLDEN}/launches/direct_one_warp.json"
TILE = "--path mma --tile 64x64x64 --m 64 --n 64 --k 128"
# A command of each verb that is right and quick; one option is then added, or replaced, with a value of WRONG.
RIGHT = {
    "run": "digits/s8 --arithmetic none",
    "launch": CAPTURE,
    "exec": "-- true",
    "capture": CAPTURE,
    "stalls": "digits/s8",
    "tmem": "digits/f16_tcgen05",
    "config": "h100_sxm chip.sms",
    "roofline": "digits/s8",
    "check": "digits/s8",
    "verify": f"{CAPTURE} {GOLDEN}/launches/direct_one_warp.ptx",
    "decode": "bar.sync 0;",
    "forms": "--type tf32",
    "layout": f"{MMA} --operand d",
    "where": f"{MMA} --operand a --row 1 --col 2",
    "what": f"{MMA} --lane 3 --register a1",
    "explain": f"{MMA} --d 1,2",
    "lessons": "",
    "accuracy": "--type f16 --k 16 --targets sm_90 --count 4",
    "prune": "matrix.npy --type f16",
    "compress": "pruned.npy --type f16 --as torch.matrix",
    "convert": "--list --type f16",
    "gemm": f"{TILE} --type f16",
    "design": "vegeta",
    "sweep": "small --dry-run",
    "faults list": "metadata --count",
    "faults run": "list.csv --output results.csv",
    "faults replay": "list.csv --id 0",
    "faults report": "results.csv",
    "faults compare": "results.csv results.csv",
    "faults plot": "results.csv --output picture.svg",
    "faults forms": "--target sm_9",
    "faults cost": "--tile 64x64x64 --type f16",
    "faults network": "digits_mlp --images 16 --faults 3 --site d --type f16",
    "faults claim": "anatomy --images 256 --faults 1 --type f16",
    "validate": "--config rtx5070ti --group peak",
}
WRONG = (
    "",
    "-7",
    "9" * 40,
    "nan",
    "1e400",
    "x y",
    "../../x",
    "٣",
    "/nowhere/at/all.x",
    "{folder}",
    "{noise}",
    "{empty}",
)
PARTS = 44  # of the commands with one wrong value
LONGEST = 3000  # letters of a line; the longest name all traces, groups or forms that there are
_ALONE = {("explore", "--serve"), ("sweep", "--dask"), ("faults run", "--dask")}  # starts a server, waits for one


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of each verb, and of each action of `faults`."""
    for verb in VERBS:
        parser = Parser(prog=f"tcsim {verb}")
        import_module(f"simulator.cli.{verb}").configure(parser)
        inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if inner:
            yield from ((f"{verb} {name}", each) for name, each in inner[0].choices.items())
        elif verb in RIGHT:
            yield verb, parser


def commands() -> Iterator[list[str]]:
    """Every option with every wrong value, in the command that is right without it."""
    for verb, parser in parsers():
        base = RIGHT[verb].split() if verb != "decode" else [RIGHT[verb]]
        for action in parser._actions:
            if action.nargs == 0 or (verb, *action.option_strings[-1:]) in _ALONE:
                continue
            for wrong in WRONG:
                if action.option_strings:
                    name = action.option_strings[0]
                    kept = without(base, name)
                    yield [*verb.split(), *kept, f"{name}={wrong}"]
                elif base and not base[0].startswith("-"):
                    yield [*verb.split(), wrong, *base[1:]]
        yield [*verb.split(), *base, "--nonsense"]
        yield [*verb.split(), *base, "--nonsense", "5", "more"]


def without(base: list[str], name: str) -> list[str]:
    """The arguments without an option and its value."""
    if name not in base:
        return base
    place = base.index(name)
    return base[:place] + base[place + 2 :]


def complaint(arguments: list[str], code: int, out: str, err: str, left: set[str]) -> str:
    """What is wrong with how a command ended; "" if nothing is."""
    if code not in (0, 1, 2):
        return f"exit code {code}"
    if "Traceback" in err + out or " object at 0x" in err:
        return f"Python's own words: {err[-300:]}"
    if code != 2:
        return ""
    if out:
        return f"exit code 2 and an answer: {out[:200]}"
    if left:
        return f"exit code 2, and left {sorted(left)}"
    if err.count("\n") != 1 or not err.startswith("tcsim"):
        return f"not one line: {err[:400]}"
    return f"{len(err)} letters: {err[:200]}" if len(err) > LONGEST else ""


def ended(tcsim: Tcsim, chosen: list[list[str]], folder: Path) -> tuple[Counter[int], list[str]]:
    """The exit codes of commands, and what was wrong with some of them."""
    names, codes, wrong = prepared(folder), Counter[int](), []
    before = {path.name for path in folder.rglob("*")}
    for arguments in chosen:
        filled = [part.format(**names) if part.startswith("{") or "={" in part else part for part in arguments]
        try:
            code, out, err = tcsim(*filled)
        except Exception as error:  # that it gets out is what is looked for
            code, out, err = 2, "", f"Traceback {type(error).__name__}: {error}"
        left = {path.name for path in folder.rglob("*")} - before
        codes[code] += 1
        said = complaint(filled, code, out, err, left if code else set())
        if said:
            wrong.append(f"tcsim {' '.join(map(repr, filled))}: {said}")
        for name in left:
            path = next(folder.rglob(name), None)
            if path is not None and path.is_file():
                path.unlink()
            elif path is not None:
                shutil.rmtree(path)
    return codes, wrong


def check(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: slice) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = list(commands())[part]
    codes, wrong = ended(tcsim, chosen, tmp_path)
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong)
    assert codes[2] > 0.6 * len(chosen), codes


def test_every_verb_has_a_command_that_is_right() -> None:
    assert {verb.split()[0] for verb in RIGHT} == set(VERBS) - {"explore"}
    assert len(list(commands())) > 2500


@exhaustive
def test_these_commands_are_right(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path)
    for verb, rest in RIGHT.items():
        if verb != "faults forms":  # takes half a minute: its command has a target that there is not
            code, _, err = tcsim(*verb.split(), *([rest] if verb == "decode" else rest.split()))
            assert code == 0, f"{verb} {rest}: {err}"


def test_a_share_of_all_errors(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some 70: one option of nine or so with a few of the wrong values."""
    check(tcsim, tmp_path, monkeypatch, slice(0, None, PARTS))


@exhaustive
@pytest.mark.parametrize("part", range(1, PARTS if PROGRAMS >= 1000 else 6))
def test_more_errors(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """Five more parts, or with TCSIM_PROGRAMS=1000 all."""
    check(tcsim, tmp_path, monkeypatch, slice(part, None, PARTS))


def test_mistakes_by_hand(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path)
    prepared_by_hand(tmp_path)
    before, wrong = {path.name for path in tmp_path.rglob("*")}, []
    for mistake in MISTAKES:
        code, out, err = tcsim(*mistake.line.split())
        missing = [words for words in mistake.words if words not in err]
        lines = (out, err.count("\n"), err[:5], len(err) < LONGEST)
        if missing or code != mistake.code or lines != ("", 1, "tcsim", True):
            wrong.append(f"tcsim {mistake.line[:100]}: {code}, without {missing}: {out[:100]}{err[:400]}")
    assert not wrong, "\n".join(wrong)
    assert {path.name for path in tmp_path.rglob("*")} == before


def test_names_with_line_breaks_stay_in_the_line(tcsim: Tcsim) -> None:
    for line in (
        ["r\nn"],
        ["run", "no\nfile.trace"],
        ["decode", "mov\n.b32"],
        ["run", "digits/f16", "--set", "a\nb=3"],
    ):
        code, out, err = tcsim(*line)
        assert (out, err.count("\n"), code in (1, 2)) == ("", 1, True), err


def main() -> None:
    """Prints how many errors the tests make."""
    from tests.simulator.test_bad_arguments import CALLS

    by_rule = len(list(commands()))
    print(f"{by_rule:,} commands by rule, of which {-(-by_rule // PARTS)} run by default")
    print(f"{len(MISTAKES)} commands and {len(CALLS)} calls from Python by hand, each with its message")


if __name__ == "__main__":
    main()
