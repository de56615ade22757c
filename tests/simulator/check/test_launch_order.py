"""`tcsim check` of launches with tcgen05: kernels that are right have no finding, and each rule of order that traces
have is named, with its lines, where one line of such a kernel is taken out or changed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from simulator.check.launch_finding import LaunchCheck
from simulator.check.launches import check_launch
from tests.support.cases import exhaustive, over
from tests.support.paths import GOLDEN

KERNELS = GOLDEN / "tcgen05"
ONE, PAIR = "f16_sp_m128_sel1", "c2_i8_sp_m256"
WAIT = r"mbarrier\.try_wait\.parity\.shared::cta\.b64 p, \[%r\d+\], 0;"
LOAD = r"tcgen05\.ld\.sync.*"
COMMIT = r"tcgen05\.commit\.\S+ (\[%r\d+\]).*;"
FREE = r"tcgen05\.dealloc.*"
ARRIVE = r"mbarrier.arrive.shared::cta.b64 _, \1;"


def planted(folder: Path, name: str, *changes: tuple[str, int | None, str]) -> Path:
    """A copy of a capture whose module is changed: (what, which of its occurrences or all, what stands there then)."""
    text = (KERNELS / f"{name}.ptx").read_text()
    for pattern, which, new in changes:
        found = list(re.finditer(pattern, text))
        assert found, pattern
        for match in [found[which]] if which is not None else reversed(found):
            text = text[: match.start()] + match.expand(new) + text[match.end() :]
    for ending in ("json", "npz"):
        shutil.copy(KERNELS / f"{name}.{ending}", folder / f"{name}.{ending}")
    (folder / f"{name}.ptx").write_text(text)
    return folder / f"{name}.json"


def serious(check: LaunchCheck) -> set[str]:
    return {finding.rule for finding in check.findings if finding.serious}


@over("path", sorted(KERNELS.glob("*.json")), ids=lambda path: path.stem)
def test_kernels_written_from_the_text_are_clean(path: Path) -> None:
    check = check_launch(path)
    assert {finding.rule for finding in check.findings} <= {"bank-conflict"}, check.table()


STORE = r"tcgen05\.st\.sync.*"
PLANTED: dict[str, tuple[Sequence[tuple[str, int | None, str]], str, str]] = {  # changes, later and earlier instruction
    "missing-commit": ([(COMMIT, 0, ARRIVE)], "tcgen05.ld", "tcgen05.mma.sp"),
    "missing-mbarrier-wait": ([(WAIT, 0, "setp.eq.u32 p, 0, 0;")], "tcgen05.ld", "tcgen05.mma.sp"),
    "missing-wait-ld": ([(r"tcgen05\.wait::ld\S+;", -1, "")], "tcgen05.dealloc", "tcgen05.ld"),
    "missing-wait-st": ([(r"tcgen05\.wait::st\S+;", -1, "")], "tcgen05.mma.sp", "tcgen05.st"),
    "missing-fence-before": ([(r"tcgen05\.fence::before\S+;", 1, "")], "tcgen05.mma.sp", "tcgen05.st"),
    "missing-fence-after": ([(r"tcgen05\.fence::after\S+;", 2, "")], "tcgen05.ld", "tcgen05.mma.sp"),
    "missing-thread-sync": ([(r"bar\.sync.*", 1, "")], "tcgen05.mma.sp", "tcgen05.st"),
    "missing-proxy-fence": ([(r"fence\.proxy\.async.*", 0, "")], "tcgen05.mma.sp", "st.shared"),
    "unfinished-at-exit": (
        [(WAIT, 0, "setp.eq.u32 p, 0, 0;"), (LOAD, None, ""), (FREE, None, "")], "tcgen05.mma.sp", "",
    ),
    "mbarrier-init-unordered": (
        [(r"bar\.sync.*", 1, ""), (r"bar\.sync.*", 0, "")], "mbarrier.try_wait", "mbarrier.init",
    ),
    "tmem-alloc-unordered": ([(r"bar\.sync.*", 0, "")], "tcgen05.st", "tcgen05.alloc"),
    "tmem-read-before-write": ([(STORE, None, "")], "tcgen05.mma.sp", ""),
    "tmem-overlap": ([(r"(mma\.sp\S+) (\[%r\d+\]), (%rd\d+, %rd\d+), \[%r\d+\]", 0, r"\1 \2, \3, \2")],
                     "tcgen05.mma.sp", ""),
}  # fmt: skip


@exhaustive
@over("rule", sorted(PLANTED))
def test_each_rule_is_named_with_both_lines(rule: str, tmp_path: Path) -> None:
    changes, later, earlier = PLANTED[rule]
    path = planted(tmp_path, ONE, *changes)
    check = check_launch(path)
    lines = path.with_suffix(".ptx").read_text().splitlines()
    found = [finding for finding in check.findings if finding.rule == rule]
    assert found, check.table()
    assert not check.clean
    assert all(finding.serious for finding in found)
    for finding in found:
        assert finding.fix
        assert finding.instruction
        assert finding.instruction in lines[finding.line - 1]
    (finding, *_) = (each for each in found if later in lines[each.line - 1])
    if earlier:
        other = re.search(r"line (\d+)", finding.what)
        assert other is not None
        assert earlier in lines[int(other[1]) - 1]
    assert len(found) <= 3, check.table()


def test_both_ctas_of_a_pair_wait_for_its_product(tmp_path: Path) -> None:
    """A commit that arrives in the issuing CTA alone, while the other one goes on to its end."""
    text = (KERNELS / f"{PAIR}.ptx").read_text()
    rank = re.search(r"mov\.u32 (%r\d+), %cluster_ctarank;", text)
    assert rank is not None
    alone = rf"setp.eq.u32 p, {rank[1]}, 1;\n@!p mbarrier.try_wait.parity.shared::cta.b64 p, [\1], 0;"
    path = planted(
        tmp_path, PAIR, (WAIT.replace(r"%r\d+", r"(%r\d+)"), 0, alone), (r"barrier\.cluster\.arrive.*", -1, ""),
        (r"barrier\.cluster\.wait.*", -1, ""),
    )  # fmt: skip
    check = check_launch(path)
    assert "peer-exited" in serious(check), check.table()


def test_relaxed_arrivals_and_waits_order_with_fences_alone(tmp_path: Path) -> None:
    """The patterns of PTX ISA 9.0, 9.7.16.6.4: with tcgen05.fence they order, and without it they do not."""
    relaxed = (r"try_wait\.parity\.shared::cta", 0, "try_wait.parity.relaxed.cluster.shared::cta")
    check = check_launch(planted(tmp_path, ONE, relaxed))
    assert check.clean, check.table()
    check = check_launch(planted(tmp_path, ONE, relaxed, (r"tcgen05\.fence::after\S+;", 2, "")))
    assert serious(check) & {"missing-fence-after", "missing-mbarrier-wait"}, check.table()


def test_fences_that_a_kernel_leaves_out_everywhere_are_notes(tmp_path: Path) -> None:
    """As CUTLASS does, whose arrivals release and whose waits acquire."""
    check = check_launch(planted(tmp_path, ONE, (r"tcgen05\.fence::\S+;", None, "")))
    assert check.clean
    assert {finding.rule for finding in check.findings} >= {"missing-fence-after", "missing-fence-before"}


def test_a_copy_over_what_a_product_reads_needs_its_end(tmp_path: Path) -> None:
    """st.shared and a bulk copy into A right behind the product, and behind the wait for it."""
    store = "st.shared.b32 [%r3+1008], %r3;"
    bulk = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3+1008], [%rd18], 16, [%r3+8];"
    copy = f"ld.param.u64 %rd18, [{ONE}_param_0];\n\t@!%p9 {bulk}"
    begin = (r"mbarrier\.init.*", 0, r"\g<0>\n\tmbarrier.init.shared::cta.b64 [%r3+8], 1;")
    for write in (store, copy):
        for after, which, rules in ((COMMIT, 0, {"missing-mbarrier-wait"}), (r"tcgen05\.fence::after\S+;", 2, set())):
            check = check_launch(planted(tmp_path, ONE, begin, (after, which, rf"\g<0>\n\t{write}")))
            assert serious(check) == rules, check.table()
            assert all("line 469" in each.what or "line 470" in each.what for each in check.findings if each.serious)


@exhaustive
@pytest.mark.parametrize(("stored", "rule"), [(0, "undefined-metadata-of-zeros"), (0x3C, "undefined-metadata")])
def test_codes_of_zeros_are_notes(stored: int, rule: str, tmp_path: Path) -> None:
    """0b0000, which CUTLASS's compressor writes for a chunk of zeros, on stored zeros and on a number."""
    path = planted(tmp_path, ONE)
    arrays = dict(np.load(path.with_suffix(".npz")))
    a, codes = (arrays[f"in|{name}"].view(np.uint8).reshape(128, -1) for name in "AE")
    codes[7, 8], a[7, :4] = 0, stored  # selector 1: the second half of the codes
    np.savez(path.with_suffix(".npz"), **arrays)
    found = {finding.rule: finding.serious for finding in check_launch(path).findings}
    assert {name: serious for name, serious in found.items() if "metadata" in name} == {rule: stored != 0}
