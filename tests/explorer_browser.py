"""A headless Chromium for the tests of the explorer: loads the page with one more script, and returns what that script found."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable") if (found := shutil.which(name))), None)
REQUIRED = os.environ.get("TCSIM_CHROMIUM") == "required"
needs_chromium = pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="no Chromium to show the page in")

# What every script may use: errors are collected from the start, and `report` writes the result where --dump-dom shows it.
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


def run_page(page: str, folder: Path, script: str, data: Any = None, fragment: str = "", size: str = "1280,1500") -> Any:
    """What `async function run()` of a script in tests/explorer_scripts returns, after the page has been loaded; fails on any error in the page."""
    assert CHROMIUM is not None, "TCSIM_CHROMIUM=required, and there is no Chromium"
    test = json.dumps(data).replace("<", "\\u003c")
    parts = [(_SCRIPTS / f"{name}.js").read_text(encoding="utf-8") for name in ("prelude", script)]
    more = f'<script type="application/json" id="test">{test}</script><script>{"".join(parts)}{_RUN}</script>'
    path = folder / "page.html"
    path.write_text(page.replace("<head>", f"<head>{_BEFORE}", 1).replace("</body>", f"{more}</body>"), encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--no-first-run", f"--user-data-dir={folder / 'profile'}",
        f"--window-size={size}", "--virtual-time-budget=60000", "--dump-dom", f"{path.as_uri()}{fragment}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page reported nothing: {done.stdout[:300]} {done.stderr[-2000:]}"
    result = json.loads(html.unescape(found[1]))
    assert result["errors"] == [], result["errors"]
    return result["value"]
