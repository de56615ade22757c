"""What a release consists of: versions that agree, and archives that an index takes."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import simulator
from simulator.lessons.catalogue import DATA
from tests.support.cases import exhaustive
from tests.support.paths import ROOT

MOST_BYTES = 6_500_000  # with the compiled front of the timing model, and the networks that faults strike


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The source archive, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.iterdir())


def test_the_version_stands_everywhere() -> None:
    version = simulator.__version__
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    changes = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert changes[0] == version


@exhaustive
def test_archives_are_small_and_whole(archives: list[Path]) -> None:
    wheel, source = archives
    assert (wheel.suffix, source.suffix) == (".whl", ".gz")
    assert max(wheel.stat().st_size, source.stat().st_size) < MOST_BYTES
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    with tarfile.open(source) as packed:
        sources = {name.partition("/")[2] for name in packed.getnames()}
    inside = f"tcsim-{simulator.__version__}.dist-info"
    assert {"isa/py.typed", "simulator/py.typed", f"{inside}/licenses/LICENSE"} <= names
    assert {"README.md", "CITATION.cff", "SECURITY.md", "CHANGELOG.md", "docs/kernels.md"} <= sources
    for name in DATA:
        assert any(each.startswith(f"simulator/data/lessons/{name}") for each in names), name
    assert not any("/golden/" in each or each.startswith("tests/") for each in names)


@exhaustive
def test_an_index_would_take_them(archives: list[Path]) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
