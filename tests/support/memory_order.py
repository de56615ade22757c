"""The examples of docs/memory_order.md: the page is their source, and what it shows of the check is what is printed.

`python -m tests.support.memory_order` writes anew what the tool prints, and says which examples changed.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulator.check.launch_finding import LaunchCheck
from simulator.check.launches import check_launch
from simulator.program.capture import write_capture
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "memory_order.md"
FRAME = """\
.version 9.0
.target TARGET
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 D) { .reg .pred %p<8>; .reg .b32 %r<8>; .reg .f32 %f<8>; .reg .b64 %rd<8>;
.reg .pred %first, %second; .reg .b32 %t, %w, %l, %cta, %own, %next, %across; .reg .b64 %A, %D, %mine, %desc;
.shared .align 16 .b8 s[4096]; .shared .align 16 .b8 b[16]; ld.param.u64 %A, [A]; ld.param.u64 %D, [D];
mov.u32 %cta, %ctaid.x; mov.u32 %t, %tid.x; shr.u32 %w, %t, 5; and.b32 %l, %t, 31; setp.eq.u32 %first, %t, 0;
setp.eq.u32 %second, %t, 32; mov.u32 %own, s; mad.lo.u32 %own, %t, 4, %own; xor.b32 %across, %own, 128;
add.u32 %next, %own, 4; lop3.b32 %next, %next, %own, 127, 0xe4; mov.u32 %r0, %ntid.x; mad.lo.u32 %r0, %cta, %r0, %t;
mad.wide.u32 %mine, %r0, 4, %D; mov.u64 %desc, s; shr.u64 %desc, %desc, 4; or.b64 %desc, %desc, 0x1000080000;
"""  # ten lines: line 11 is the first line of an example
_SECTION = re.compile(r"^## \d+\. `([a-z0-9-]+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LAUNCH = re.compile(
    r"(\d+) CTAs? of (\d+) threads(?:, clusters of (\d+))?(?:, (sm_\w+))?\. (Right|Wrong)(?: \(`([a-z-]+)`, lines? "
    r"([\d, and]+)\))?:\n\n```\n(.*?)```\n(?:\n```text\n(.*?)```\n)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    """An example of a rule.

    Attributes:
        name: of the rule.
        ctas, threads, cluster: of the launch.
        right: whether the rule is kept; else `finding` is found.
        finding: the rule of the finding.
        lines: the lines of both sides.
        body: PTX between a frame that is the same for all.
        printed: what the page shows of `tcsim check`.
    """

    name: str
    ctas: int
    threads: int
    cluster: int
    target: str
    right: bool
    finding: str
    lines: tuple[int, ...]
    body: str
    printed: str

    @property
    def ptx(self) -> str:
        """The whole module."""
        return FRAME.replace("TARGET", self.target) + self.body + "ret;\n}\n"

    def check(self, folder: Path) -> LaunchCheck:
        """What `tcsim check` finds."""
        buffers = {"A": np.arange(4096, dtype=np.uint32), "D": np.zeros(4096, np.uint32)}
        capture = write_capture(
            folder / f"{self.name}.json", self.ptx, "k", (self.ctas,), (self.threads,),
            [{"buffer": name} for name in buffers], buffers, {}, target=self.target,
            cluster=(self.cluster,) if self.cluster > 1 else None,
        )  # fmt: skip
        return check_launch(capture)

    def text(self, report: LaunchCheck) -> str:
        """What the page shows of a report: the findings without the verdict."""
        return report.table().rpartition("\n\n")[0] + "\n"


def sections() -> dict[str, str]:
    """The text of the page by rule, in its order."""
    return dict(_SECTION.findall(PAGE.read_text(encoding="utf-8")))


def examples() -> list[Example]:
    """All examples of the page."""
    return [_example(name, match) for name, text in sections().items() for match in _LAUNCH.finditer(text)]


def _example(name: str, match: re.Match[str]) -> Example:
    ctas, threads, cluster, target, kind, finding, lines, body, printed = match.groups()
    return Example(
        name, int(ctas), int(threads), int(cluster or 1), target or "sm_80", kind == "Right", finding or "",
        tuple(int(each) for each in re.findall(r"\d+", lines or "")), body, printed or "",
    )  # fmt: skip


def main() -> None:
    """Writes what the tool prints into the page."""
    with tempfile.TemporaryDirectory() as folder:
        for example in examples():
            printed = example.text(example.check(Path(folder)))
            text = PAGE.read_text(encoding="utf-8")
            if example.right:
                if printed.strip():
                    print(f"{example.name}: accused\n{printed}")
                continue
            block = f"```\n{example.body}```\n\n```text\n"
            assert text.count(block) == 1, example.name
            before, _, after = text.partition(block)
            after = after.partition("```\n")[2]
            new = f"{before}{block}{printed}```\n{after}"
            if new != text:
                print(f"{example.name}:\n{printed}")
            PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
