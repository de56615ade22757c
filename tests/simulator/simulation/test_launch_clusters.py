"""Clusters of a launch: what the kernel demands in directives, what the launch asks for, and what threads read of it.

Expected values are computed here from the definitions of PTX ISA 9.0, 10.7 to 10.15 (special registers).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from isa.targets import parse_target
from simulator.program.capture import write_capture
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.place import largest_cluster

Tcsim = Callable[..., tuple[int, str, str]]
AXES = "xyz"
SPECIAL = (
    "%cluster_ctarank", "%cluster_nctarank",
    *(f"%{name}.{axis}" for name in ("cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid") for axis in AXES),
)  # fmt: skip


def module(directives: str = "", target: str = "sm_90a", version: str = "9.0") -> str:
    """A kernel whose CTAs write the special registers of clusters, in the order of SPECIAL, and whether that is
    explicit: uint32 [CTA, 15]."""
    stores = "\n".join(
        f"mov.u32 %r6, {name};\nst.global.u32 [%rd1+{4 * place}], %r6;" for place, name in enumerate(SPECIAL)
    )
    return f"""\
.version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 D)
{directives}
{{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [D];
mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
mad.lo.u32 %r2, %r3, %r5, %r2;
mad.lo.u32 %r1, %r2, %r4, %r1;
mul.wide.u32 %rd2, %r1, 60;
add.s64 %rd1, %rd1, %rd2;
{stores}
mov.pred %p1, %is_explicit_cluster;
selp.u32 %r6, 1, 0, %p1;
st.global.u32 [%rd1+56], %r6;
ret;
}}
"""


def run(text: str, grid: tuple[int, ...], **options: object) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    ctas = int(np.prod(grid)) * (16 if "blocksare" in text else 1)
    data = np.full((ctas, 15), 77, np.uint32)
    simulator.Module(text).get_function("k")(grid, (32,), (data,), **options)  # type: ignore[arg-type]
    return data


def expected(
    grid: tuple[int, ...], cluster: tuple[int, ...], *, explicit: bool = True
) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    grid, cluster = (*grid, 1, 1)[:3], (*cluster, 1, 1)[:3]
    rows = []
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                inside = [place % size for place, size in zip((x, y, z), cluster, strict=True)]
                rank = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
                whole = [place // size for place, size in zip((x, y, z), cluster, strict=True)]
                count = [extent // size for extent, size in zip(grid, cluster, strict=True)]
                rows.append([rank, int(np.prod(cluster)), *inside, *cluster, *whole, *count, int(explicit)])
    return np.array(rows, np.uint32)


@pytest.mark.parametrize(
    ("grid", "cluster"),
    [
        ((4,), (2,)),
        ((8,), (8,)),
        ((16,), (16,)),
        ((4, 6), (2, 3)),
        ((4, 4, 2), (2, 2, 2)),
        ((3, 4, 6), (1, 4, 2)),
        ((3,), (1,)),
    ],
)
def test_special_registers_of_clusters(grid: tuple[int, ...], cluster: tuple[int, ...]) -> None:
    """From the directive, from the argument, and from both."""
    want = expected(grid, cluster)
    directive = f".explicitcluster\n.reqnctapercluster {', '.join(map(str, cluster))}"
    assert np.array_equal(run(module(directive), grid), want)
    assert np.array_equal(run(module(), grid, cluster=cluster), want)
    assert np.array_equal(run(module(".explicitcluster\n.maxclusterrank 16"), grid, cluster=list(cluster)), want)
    assert np.array_equal(run(module(directive), grid, cluster=(*cluster, 1, 1)[:3]), want)


def test_without_a_cluster() -> None:
    for text in (module(), module(".maxclusterrank 4"), module(target="sm_80", version="8.0").replace("9.0", "8.0")):
        if "sm_80" not in text:
            assert np.array_equal(run(text, (3, 2)), expected((3, 2), (1,), explicit=False))
    assert np.array_equal(run(module(), (4,), cluster=2), expected((4,), (2,)))


def test_a_grid_that_counts_clusters() -> None:
    text = module(".blocksareclusters\n.reqntid 32\n.reqnctapercluster 4, 2")
    assert np.array_equal(run(text, (2, 1))[:16], expected((8, 2), (4, 2)))
    with pytest.raises(LaunchError, match=r"\.reqntid and \.reqnctapercluster beside it"):
        run(module(".blocksareclusters\n.reqntid 32"), (2,))


REFUSED: dict[str, tuple[str, tuple[int, ...], dict[str, object], str]] = {
    "no whole clusters": (".reqnctapercluster 2, 1, 1", (3,), {}, "grid (3, 1, 1) is not whole clusters of (2, 1, 1)"),
    "nor in y": ("", (4, 3), {"cluster": (1, 2)}, "grid (4, 3, 1) is not whole clusters of (1, 2, 1)"),
    "another cluster": (
        ".reqnctapercluster 2",
        (4,),
        {"cluster": (4,)},
        "cluster (4, 1, 1), but 'k' demands (2, 1, 1)",
    ),
    "of one": (".reqnctapercluster 2", (4,), {"cluster": (1,)}, "cluster (1, 1, 1), but 'k' demands (2, 1, 1)"),
    "turned": (".reqnctapercluster 2, 1", (4, 4), {"cluster": (1, 2)}, "demands (2, 1, 1)"),
    "none": (".explicitcluster", (4,), {}, "no cluster, but 'k' demands one (.explicitcluster)"),
    "above the rank": (".maxclusterrank 4", (8,), {"cluster": 8}, "8 CTAs a cluster, but 'k' is compiled for 4"),
    "above the chip": ("", (32,), {"cluster": 32}, "32 CTAs a cluster: sm_90a has at most 16"),
    "in three": ("", (4, 4, 4), {"cluster": (3, 3, 3)}, "27 CTAs a cluster"),
    "on a small chip": ("", (16,), {"cluster": 16, "target": "sm_120"}, "sm_120 has at most 8"),
    "on an old chip": ("", (4,), {"cluster": 2, "target": "sm_89"}, "2 CTAs a cluster: sm_89 has none"),
    "of another config": (".reqnctapercluster 2", (4,), {"config": "a100"}, "sm_80 has none"),
    "nothing": ("", (4,), {"cluster": (0,)}, "cluster (0,)"),
    "too many numbers": ("", (4,), {"cluster": (1, 1, 1, 1)}, "one to three numbers"),
    "other threads": (".reqntid 64", (4,), {}, "block (32, 1, 1), but 'k' demands (64, 1, 1) (.reqntid)"),
    "as many in y": (".reqntid 1, 32", (4,), {}, "demands (1, 32, 1)"),
    "too many threads": (".maxntid 4, 4", (4,), {}, "32 threads a CTA, but 'k' is compiled for 16 (.maxntid)"),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_launches_that_a_kernel_does_not_take(case: str) -> None:
    directives, grid, options, message = REFUSED[case]
    with pytest.raises(LaunchError) as found:
        run(module(directives), grid, **options)
    assert message in str(found.value)
    assert found.value.rule in ("launch-geometry", "launch-cluster")
    assert found.value.legal


def test_tuning_that_a_launch_need_not_obey() -> None:
    for directive in (
        ".minnctapersm 4",
        ".maxntid 0x400",
        ".maxnreg 64",
        ".reqntid 0x20, 1, 1",
        ".maxntid 32\n.minnctapersm 2",
    ):
        assert len(run(module(directive), (4,))) == 4


def test_how_many_ctas_a_cluster_of_each_chip_has() -> None:
    assert {name: largest_cluster(parse_target(name)) for name in ("sm_70", "sm_89", "sm_90", "sm_100a", "sm_121")} == {
        "sm_70": 1, "sm_89": 1, "sm_90": 16, "sm_100a": 16, "sm_121": 8,
    }  # fmt: skip


def test_clusters_on_the_command_line(tcsim: Tcsim, tmp_path: Path) -> None:
    path, output = tmp_path / "k.ptx", tmp_path / "d.npz"
    path.write_text(module())
    line = ("launch", str(path), "--block", "32", "--arg", "D=out:uint32:4x15", "--output", str(output))
    code, out, _ = tcsim(*line, "--grid", "2,2", "--cluster", "1,2")
    assert code == 0
    assert "cluster             1 x 2 x 1\n" in out
    with np.load(output) as stored:
        assert np.array_equal(stored["D"], expected((2, 2), (1, 2)))
    output.unlink()
    for given, message in (("3", "not whole clusters of (3, 1, 1)"), ("2,0", "'2,0'"), ("32,1,1", "at most 16")):
        code, out, err = tcsim(*line, "--grid", "4", "--cluster", given)
        assert (code, out, err.count("\n"), message in err) == (2, "", 1, True), err
    assert not output.exists()


@pytest.mark.parametrize(
    ("key", "directive", "cluster"),
    [
        ([2, 1, 1], "", (2,)),
        ([2, 1, 1], ".reqnctapercluster 2", (2,)),
        ([1, 1, 1], ".reqnctapercluster 2", (2,)),  # what recorders write where nothing was asked for
        (None, ".reqnctapercluster 4", (4,)),
        ([4, 1, 1], ".reqnctapercluster 2", None),
        ([3, 1, 1], "", None),
    ],
)
def test_clusters_of_a_capture(
    tcsim: Tcsim, tmp_path: Path, key: list[int] | None, directive: str, cluster: tuple[int, ...] | None
) -> None:
    path = tmp_path / "c.json"
    after = {"D": expected((4,), cluster or (1,))}
    write_capture(path, module(directive), "k", (4, 1, 1), (32, 1, 1), [{"buffer": "D"}], {}, after, target="sm_90")
    content = json.loads(path.read_text())
    assert content["cluster"] is None
    path.write_text(json.dumps(content | {"cluster": key}))
    for verb in ("launch", "check"):
        code, _, err = tcsim(verb, str(path))
        assert (code, err.count("\n")) == ((0, 0) if cluster else (2, 1)), err
