"""Browsers for the tests of the explorer. One headless Chromium (or Firefox) a session shows a page that asks a small
server of this module for the next job; a job is the explorer's page, with one more script, in a frame of any size. The
script sends what it found back. Nothing but HTTP is needed, so both browsers are driven in the same way.

Keys are events that the scripts make: what the page does with them is tested, what the browser does with Tab is not.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from simulator.layout import Choice, FormLayout, form_layout
from simulator.views.explorer import page
from tests.support.cases import exhaustive

_NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "firefox": ("firefox-esr", "firefox"),
}
BROWSERS = {
    browser: next((found for name in names if (found := shutil.which(name))), None) for browser, names in _NAMES.items()
}
AXE = os.environ.get("TCSIM_AXE")  # path of axe.min.js of axe-core, which .ci/run fetches


def _needs(browser: str) -> pytest.MarkDecorator:
    required = os.environ.get(f"TCSIM_{browser.upper()}") == "required"
    return pytest.mark.skipif(
        BROWSERS[browser] is None and not required, reason=f"no {browser.capitalize()} to show the page in"
    )


needs_chromium = _needs("chromium")
needs_axe = pytest.mark.skipif(not AXE, reason="TCSIM_AXE does not name axe-core's axe.min.js")
in_each_browser = pytest.mark.parametrize(
    "browser",
    [
        pytest.param("chromium", marks=_needs("chromium")),
        pytest.param("firefox", marks=[_needs("firefox"), *([exhaustive] if BROWSERS["chromium"] else [])]),
    ],
)
"""In Chromium by default, and in Firefox where there is no Chromium; in both with the exhaustive tests."""

ORDERED = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
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

# Errors are collected from the start; `report` sends the result.
_BEFORE = """<script>
const ERRORS = [];
window.onerror = (message, source, line) => { ERRORS.push(`${message} (line ${line})`); };
window.addEventListener("unhandledrejection", (event) => ERRORS.push(String(event.reason)));
console.error = (...parts) => ERRORS.push(parts.join(" "));
</script>"""
_RUN = """
(async () => {
  try {
    await report(await run());
  } catch (error) {
    ERRORS.push(String((error && error.stack) || error));
    await report(null);
  }
})();"""
_DRIVER = b"""<!doctype html><title>tests</title><body style="margin:0"><script>
(async () => {
  for (;;) {
    const job = await (await fetch("/job")).json();
    if (!job) continue;
    const frame = document.createElement("iframe");
    frame.style = `border:0;width:${job.size[0]}px;height:${job.size[1]}px`;
    frame.src = `/page/${job.number}${job.fragment}`;
    const done = new Promise((told) => { window.addEventListener("message", told, { once: true }); });
    document.body.replaceChildren(frame);
    await done;
  }
})();
</script>"""
_SCRIPTS = Path(__file__).parent / "explorer_scripts"
_PREFERENCES = """
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("browser.aboutwelcome.enabled", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("toolkit.startup.max_resumed_crashes", -1);
"""


class Browser:
    """A running browser that shows one page after another, and the server that it asks for them."""

    def __init__(self, name: str) -> None:
        program = BROWSERS[name]
        assert program is not None, f"TCSIM_{name.upper()}=required, and there is no {name.capitalize()}"
        self.jobs: queue.Queue[dict[str, Any]] = queue.Queue()
        self.results: queue.Queue[tuple[int, bytes]] = queue.Queue()
        self.pages: dict[int, bytes] = {}
        self.count = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.folder = Path(tempfile.mkdtemp(prefix="tcsim-browser-"))
        (self.folder / "user.js").write_text(_PREFERENCES, encoding="utf-8")
        url = f"http://127.0.0.1:{self.server.server_port}/"
        options = {
            "chromium": [
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--no-first-run"),
                *(f"--user-data-dir={self.folder}", "--remote-debugging-port=0", "--window-size=2000,1600", url),
            ],
            "firefox": ["--headless", "--no-remote", "--profile", str(self.folder), "--new-instance", url],
        }
        self.process = subprocess.Popen(
            [program, *options[name]],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": str(self.folder)},
        )
        atexit.register(self.close)

    def show(self, text: str, fragment: str, size: tuple[int, int], timeout: float = 120) -> Any:
        """What the script in the page reported; fails on any error in the page."""
        self.count += 1
        self.pages = {self.count: text.encode()}
        self.jobs.put({"number": self.count, "fragment": fragment, "size": size})
        while True:
            try:
                number, found = self.results.get(timeout=timeout)
            except queue.Empty:
                pytest.fail(f"the page reported nothing within {timeout} s")
            if number == self.count:
                break
        result = json.loads(found)
        assert result["errors"] == [], result["errors"]
        return result["value"]

    def close(self) -> None:
        """Ends the browser with all its processes, and removes its profile."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.server.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        browser = self

        class Handler(BaseHTTPRequestHandler):
            """Gives the driver's page, the next job and its page; takes results."""

            def do_GET(self) -> None:
                """Sends what is asked for; a job when there is one."""
                kind = "text/html; charset=utf-8"
                if self.path == "/job":
                    kind = "application/json"
                    try:
                        body = json.dumps(browser.jobs.get(timeout=20)).encode()
                    except queue.Empty:
                        body = b"null"
                elif self.path.startswith("/page/"):
                    body = browser.pages.get(int(self.path.rpartition("/")[2]), b"")
                else:
                    body = _DRIVER
                self._send(kind, body)

            def do_POST(self) -> None:
                """Takes the result of a page."""
                body = self.rfile.read(int(self.headers["Content-Length"]))
                browser.results.put((int(self.path.rpartition("/")[2]), body))
                self._send("text/plain", b"")

            def _send(self, kind: str, body: bytes) -> None:
                with suppress(ConnectionError):
                    self.send_response(200)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Keeps requests from being logged."""

        return Handler


@cache
def browser_named(name: str) -> Browser:
    """The browser of the session, started when it is first asked for."""
    return Browser(name)


@cache
def the_page() -> str:
    return page()


def run_page(
    script: str,
    data: Any = None,
    fragment: str = "",
    size: tuple[int, int] = (1280, 1500),
    browser: str = "chromium",
    more: str = "",
) -> Any:
    """What `async function run()` of a script in tests/support/explorer_scripts returns, after the page has been loaded
    in a window of a size; `more` is JavaScript that the script needs."""
    test = json.dumps(data).replace("<", "\\u003c")
    parts = [(_SCRIPTS / f"{name}.js").read_text(encoding="utf-8") for name in ("prelude", script)]
    added = f'<script type="application/json" id="test">{test}</script>'
    added += f"<script>{more}</script>" * bool(more) + f"<script>{''.join(parts)}{_RUN}</script>"
    text = the_page().replace("<head>", f"<head>{_BEFORE}", 1).replace("</body>", f"{added}</body>")
    return browser_named(browser).show(text, fragment, size)


def choice_of(record: dict[str, Any]) -> Choice:
    """The choice that the page says it shows."""
    sizes = {name: record[name] for name in ("m", "n")} if record["tmem"] else {}
    ids = {name: tuple(map(int, text.split("."))) for name, text in record["ids"].items()}
    return Choice(selector=record["selector"], base_lane=record["base"], **sizes, **ids)  # type: ignore[arg-type]


@cache
def layout_of(opcode: str, choice: Choice) -> FormLayout:
    return form_layout(opcode, choice)
