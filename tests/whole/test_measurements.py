"""The table of measurements/README.md says which constant every measurement gave, and a config says where its constants
are from: what either names is there."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch

from tests.support.paths import ROOT

MEASUREMENTS = ROOT / "measurements"
README = (MEASUREMENTS / "README.md").read_text()
TABLE = README[: README.index("## Again, on another GPU")]
QUOTED = re.findall(r"`([^`]+)`", TABLE)


def test_every_measurement_has_a_row() -> None:
    """Each script that measures, and each result, is named in the table."""
    files = [path.name for pattern in ("*.py", "*.cu", "results/*") for path in MEASUREMENTS.glob(pattern)]
    support = {"device.json"}  # what the GPU was, for every table
    named = [name.removeprefix("results/") for name in QUOTED]
    assert [name for name in files if not any(fnmatch(name, row) for row in named) and name not in support] == []


def test_constants_of_the_table_are_in_the_config() -> None:
    config = tomllib.loads((ROOT / "configs" / "h100_sxm.toml").read_text())
    wrong = []
    for text in QUOTED:
        if entry := re.fullmatch(r"\[+(\w+)\]+(.*)", text):
            tables = config.get(entry[1], [])
            keys = {key for table in (tables if isinstance(tables, list) else [tables]) for key in table}
            wrong += [f"[{entry[1]}] {key}" for key in re.findall(r"\w+", entry[2]) if key not in keys]
            wrong += [] if keys else [f"[{entry[1]}]"]
    assert wrong == []


def test_sources_lead_to_measurements() -> None:
    """What configs and the simulator say of measurements/ is there."""
    files = [*(ROOT / "configs").glob("*.toml"), *(ROOT / "simulator").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    texts = {path: path.read_text() for path in files}
    wanted = {
        (path.name, name)
        for path, text in texts.items()
        for name in re.findall(r"(?<!configs/)\bmeasurements/([\w/]+\.(?:py|cu|csv|json)(?:\.gz)?)", text)
    }
    assert len(wanted) > 20
    assert {(file, name) for file, name in wanted if not (MEASUREMENTS / name).exists()} == set()
