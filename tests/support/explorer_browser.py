"""A headless Chromium for the tests of the explorer: loads the page with one more script, and returns what that script
found."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simulator.layout import Choice, FormLayout, form_layout
from simulator.views.explorer import page

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
        if (found := shutil.which(name))
    ),
    None,
)
REQUIRED = os.environ.get("TCSIM_CHROMIUM") == "required"
needs_chromium = pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="no Chromium to show the page in")

F16 = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
TF32 = "mma.sp.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32"
S4 = "mma.sp.sync.aligned.m16n8k128.row.col.s32.s4.s4.s32"
DENSE = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
STACKED = "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32"
SCALED = (
    "mma.sp::ordered_metadata.sync.aligned.m16n8k128.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X"
    ".f32.e2m1.e2m1.f32.ue4m3"
)
LOADS = "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"
TMEM = "tcgen05.mma.sp.cta_group::1.kind::f16"
TMEM_SCALED = "tcgen05.mma.sp.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X"

# What every script may use: errors are collected from the start, and `report` writes the result where --dump-dom shows
# it.
_BEFORE = """<script>
const ERRORS = [];
window.onerror = (message, source, line) => { ERRORS.push(`${message} (line ${line})`); };
window.addEventListener("unhandledrejection", (event) => ERRORS.push(String(event.reason)));
console.error = (...parts) => ERRORS.push(parts.join(" "));
</script>"""
_RUN = """
(async () => {
  try {
    report(await run());
  } catch (error) {
    ERRORS.push(String((error && error.stack) || error));
    report(null);
  }
})();"""
_SCRIPTS = Path(__file__).parent / "explorer_scripts"


@cache
def the_page() -> str:
    return page()


def run_page(folder: Path, script: str, data: Any = None, fragment: str = "") -> Any:
    """What `async function run()` of a script in tests/explorer_scripts returns, after the page has been loaded; fails
    on any error in the page."""
    assert CHROMIUM is not None, "TCSIM_CHROMIUM=required, and there is no Chromium"
    test = json.dumps(data).replace("<", "\\u003c")
    parts = [(_SCRIPTS / f"{name}.js").read_text(encoding="utf-8") for name in ("prelude", script)]
    more = f'<script type="application/json" id="test">{test}</script><script>{"".join(parts)}{_RUN}</script>'
    path = folder / "page.html"
    path.write_text(
        the_page().replace("<head>", f"<head>{_BEFORE}", 1).replace("</body>", f"{more}</body>"), encoding="utf-8"
    )
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-extensions",
        "--no-first-run",
        f"--user-data-dir={folder / 'profile'}",
        "--window-size=1280,1500",
        "--virtual-time-budget=60000",
        "--dump-dom",
        f"{path.as_uri()}{fragment}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page reported nothing: {done.stdout[:300]} {done.stderr[-2000:]}"
    result = json.loads(html.unescape(found[1]))
    assert result["errors"] == [], result["errors"]
    return result["value"]


def choice_of(record: dict[str, Any]) -> Choice:
    """The choice that the page says it shows."""
    sizes = {name: record[name] for name in ("m", "n")} if record["tmem"] else {}
    ids = {name: tuple(map(int, text.split("."))) for name, text in record["ids"].items()}
    return Choice(selector=record["selector"], base_lane=record["base"], **sizes, **ids)  # type: ignore[arg-type]


@cache
def layout_of(opcode: str, choice: Choice) -> FormLayout:
    return form_layout(opcode, choice)
