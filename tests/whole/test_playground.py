"""The playground: lessons that run in a browser give the outputs that are checked in. Built with npm's Pyodide."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from tests.support.cases import PROGRAMS, exhaustive
from tests.support.explorer_browser import BROWSERS, in_each_browser
from tests.support.paths import ROOT

needs_npm = pytest.mark.skipif(shutil.which("npm") is None, reason="no npm to fetch Pyodide with")
WITHOUT_PANDAS = ["9", "12"]
LESSONS = range(1, 1 + len(list((ROOT / "notebooks").glob("[0-9]*.ipynb"))))
TRIED = [str(n) for n in LESSONS if str(n) not in WITHOUT_PANDAS] if PROGRAMS >= 1000 else ["2", "3"]
"""Lessons that are run; all that can be with TCSIM_PROGRAMS=1000 (three minutes a browser)."""
SECONDS = 120  # that a lesson may take
DRIVER = """
const status = document.getElementById("status");
const until = async (test) => { while (!test()) await new Promise((done) => setTimeout(done, 50)); };
const found = {};
for (const number of %s) {
  location.hash = number;
  await until(() => document.getElementById("lessons").value.startsWith(`${number}_`));
  await until(() => status.textContent.startsWith("ready") || /cannot|is not/.test(status.textContent));
  const all = document.getElementById("all");
  if (!all.disabled) {
    all.click();
    const boxes = [...document.querySelectorAll(".cell")];
    await until(() => boxes.every((box) => box.dataset.state === "done") || /error|cannot/.test(status.textContent));
  }
  const text = (out) => [...out.querySelectorAll("pre")].map((pre) => pre.textContent).join("");
  const texts = [...document.querySelectorAll(".outputs")].map(text);
  const pictures = document.querySelectorAll(".outputs img").length;
  const result = { number, texts, pictures, status: status.textContent, ran: !all.disabled };
  await fetch("/result", { method: "POST", body: JSON.stringify(result) });
}
"""


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("playground") / "built"
    command = [sys.executable, str(ROOT / "notebooks" / "playground.py"), str(folder)]
    # where there is no network, npm tries again for over two minutes unless told otherwise
    patience = {"npm_config_fetch_retries": "1", "npm_config_fetch_retry_mintimeout": "1000"}
    done = subprocess.run(
        command,
        cwd=tmp_path_factory.getbasetemp(),
        env={**os.environ, **patience},
        capture_output=True,
        text=True,
        check=False,
    )
    if "npm cannot fetch" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return folder


class Handler(SimpleHTTPRequestHandler):
    """The built folder, with one more script in its page, which sends what it found."""

    results: Queue[dict[str, Any]]
    numbers: list[str]

    def do_GET(self) -> None:
        if self.path.startswith("/driver.js"):
            self.answer(DRIVER % json.dumps(self.numbers), "text/javascript")
        elif self.path.split("?")[0] == "/":
            page = (Path(self.directory) / "index.html").read_text()
            self.answer(page.replace("</body>", '<script src="driver.js" type="module"></script></body>'), "text/html")
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.results.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("", "text/plain")

    def answer(self, text: str, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def in_browser(browser: str, folder: Path, numbers: list[str]) -> list[dict[str, Any]]:
    """What the page shows after it ran these lessons."""
    results: Queue[dict[str, Any]] = Queue()
    handler = type("Driven", (Handler,), {"results": results, "numbers": numbers})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program = BROWSERS[browser]
    assert program is not None
    address = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        chromium = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        options = chromium if browser == "chromium" else ["--headless", "--no-remote", "--profile", profile]
        process = subprocess.Popen([program, *options, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return [results.get(timeout=SECONDS) for _ in numbers]
        except Empty:
            raise AssertionError(f"{browser} did not end a lesson within {SECONDS} s") from None
        finally:
            process.kill()
            process.wait()
            server.shutdown()
            server.server_close()


def recorded(number: str) -> list[str]:
    """What the code cells of a lesson print, as it is checked in."""
    notebook = json.loads(next((ROOT / "notebooks").glob(f"{number}_*.ipynb")).read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return ["".join("".join(out["text"]) for out in cell["outputs"] if "text" in out) for cell in cells]


@exhaustive
@needs_npm
@in_each_browser
def test_lessons_give_the_outputs_that_are_checked_in(browser: str, playground: Path) -> None:
    for found in in_browser(browser, playground, TRIED):
        assert found["texts"] == recorded(found["number"]), found["status"]
        assert found["pictures"]


@exhaustive
@needs_npm
def test_a_lesson_that_needs_pandas_shows_what_was_recorded(playground: Path) -> None:
    if BROWSERS["chromium"] is None:
        pytest.skip("no Chromium to show the page in")
    for found in in_browser("chromium", playground, WITHOUT_PANDAS):
        assert not found["ran"]
        assert "needs pandas" in found["status"]
        assert found["pictures"]


@exhaustive
@needs_npm
def test_nothing_is_loaded_from_elsewhere(playground: Path) -> None:
    for name in ("index.html", "page.js", "worker.js", "page.css"):
        assert not re.search(r"https?://", (playground / name).read_text()), name
    listed = json.loads((playground / "lessons" / "index.json").read_text())
    assert [one["number"] for one in listed] == list(LESSONS)
    assert [str(one["number"]) for one in listed if one["without"]] == WITHOUT_PANDAS
