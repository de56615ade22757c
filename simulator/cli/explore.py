"""The verb `tcsim explore [FORM]`, which writes or serves the explorer: one HTML page that shows where every element
lives."""

from __future__ import annotations

import argparse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from simulator.cli import BAD, DONE, NO, say
from simulator.cli.answer import answer
from simulator.files import complete

DESCRIPTION = """\
Writes one HTML file that shows where the fragments of every form live: click an element, a lane or a bit of the
metadata, and see what belongs together and why, step by step. The page also compares mma.sp, wgmma.sp and
tcgen05.mma.sp, asks questions (quiz), shows what Tensor Memory holds at each moment of a run (of an example, or of the
programs that --memory names), saves what it shows as SVG or PNG, and can be used with the keyboard alone.

FORM is the form that it shows first, an opcode as for `tcsim layout`; the page holds all of mma, mma.sp, ldmatrix and
tcgen05.mma. It needs no network.
"""
OUTPUT = "tcsim-explorer.html"
PORT = 8000


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim explore` to its parser."""
    parser.description = DESCRIPTION
    parser.add_argument(
        "form",
        metavar="FORM",
        nargs="?",
        default="",
        help="form to show first (default: mma.sp::ordered_metadata.m16n8k32 of f16)",
    )
    parser.add_argument("--output", metavar="FILE.html", help=f"file to write (default {OUTPUT}; with --serve none)")
    served = f"serve it on this machine alone, until Ctrl-C (default port {PORT}; 0: any)"
    parser.add_argument("--serve", metavar="PORT", nargs="?", type=_port, const=PORT, help=served)
    parser.add_argument(
        "--palette",
        choices=("pastel", "distinct", "safe", "bw"),
        default="",
        help="colours of the lanes (default pastel, CuTe's)",
    )
    memory = "trace or captured launch (NAME.json) whose Tensor Memory the page shows over its run; may be repeated"
    parser.add_argument("--memory", metavar="PROGRAM", action="append", default=[], help=memory)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim explore` with parsed options; returns the exit code."""
    from simulator.views.explorer import FIRST, page

    path = options.output or (OUTPUT if options.serve is None else None)
    text = ""

    def work() -> str:
        nonlocal text
        text = page(options.form or FIRST, options.palette, options.memory)
        if path:
            with complete(path) as stream:
                stream.write(text.encode())
        return f"{path}\n" if path else ""

    code = answer(work, [path], illegal=NO)
    return code if code != DONE or options.serve is None else _serve(text.encode(), options.serve)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"no port '{text}'; legal: 0 to 65535")
    return int(text)


def _serve(content: bytes, port: int) -> int:
    """Serves the page at /, for this machine alone, until it is interrupted."""

    class Handler(BaseHTTPRequestHandler):
        """Answers requests for the page."""

        def do_GET(self) -> None:
            """Sends the page for /, and 404 for everything else."""
            known_path = self.path.partition("?")[0] in ("/", "/index.html")
            self.send_response(200 if known_path else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8" if known_path else "text/plain")
            body = content if known_path else b"not here\n"
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keeps requests from being logged."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        say(f"port {port} cannot be served ({error.strerror}); another: --serve PORT, any: --serve 0")
        return BAD
    with server:
        print(f"http://127.0.0.1:{server.server_port}/", flush=True)
        say("Ctrl-C ends")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return DONE
    return DONE
