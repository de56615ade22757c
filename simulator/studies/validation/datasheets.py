"""Compares the throughput of a whole chip, as the config has it, with its data sheet: SMs x clock x multiply-adds a
cycle of an SM at the interval (the rate) of the instruction, dense and sparse, in TFLOPS or TOPS with pruned products
counted.

Nothing is simulated: it is the config's own numbers that are compared, so that a wrong clock, number of SMs or rate
shows, for every chip. What deviates, and why, stands in `NOTES`.
"""

from __future__ import annotations

from collections.abc import Mapping

from isa import mma_form
from simulator.chip.config import Config
from simulator.errors import ConfigError
from simulator.studies.validation.group import Figure, Group, Row, assumed, published, sources

_HOPPER = (
    "the datasheet's rates are those of wgmma; mma and mma.sp issue every 6 and 8 cycles where the peak would need 4, "
    "as measured, so that dense types stay a third and sparse ones a half below"
)
NOTES = {
    "h100_sxm": _HOPPER,
    "h200": _HOPPER,
    "h800_pcie": f"{_HOPPER}; and the peak is at 1,620 MHz, the config's clock the highest",
    "b200": "the config's clock is that of f16; the datasheet rounds tf32 down",
    "b300": "the datasheet's figures are those of the B200 but for FP4; the config's clock is what 2,330 TFLOPS need",
    "rtx5090": "integers were measured to issue every 17 cycles where the datasheet has 16",
    "rtx_pro_6000": "the datasheet rounds",
}


def sheets() -> Mapping[str, tuple[Figure, ...]]:
    """For each config: instruction, TFLOPS, source."""
    return published("datasheets.csv", "instruction", "tflops")


def rate(config: Config, instruction: str) -> tuple[float, tuple[str, ...]]:
    """Multiply-adds a cycle of an SM, K as named, and the tables that say so; ConfigError for none."""
    sparse = instruction.startswith(("mma.sp", "tcgen05.mma.sp"))
    if instruction.startswith("tcgen05"):
        assert config.tcgen05 is not None
        kind = instruction.rpartition("::")[2]
        found = config.tcgen05.sparse_rate(kind) if sparse else config.tcgen05.kind(kind)
        if found is not None:
            return found.rate, (f"tcgen05 {'sparse' if sparse else 'kind'} {found.name}",)
    else:
        form = mma_form(instruction)
        tensor = config.tensor_class(form)
        if tensor is not None:
            return form.fma * config.sm.sub_cores / tensor.interval, (f"tensor {tensor.name}",)
    raise ConfigError(config.path, "tensor", f"{config.name} has no rate for '{instruction}'", "a table for it")


def rows(config: Config, short: bool) -> list[Row]:
    """Every figure of the config's data sheet. There are few, so the short form is the same."""
    found = []
    for instruction, figure, _ in sheets()[config.name]:
        per_cycle, tables = rate(config, instruction)
        tflops = 2 * per_cycle * config.chip.sms * config.chip.clock_mhz * 1e-6
        sparse = "sparse" if ".sp" in instruction else "dense"
        label = instruction.replace("sync.aligned.", "").replace("row.col.", "").replace("::ordered_metadata", "")
        found.append(Row(label, (("sparse", sparse),), figure, tflops, assumed(config, ("chip", *tables))))
    return found


def _group(config: str) -> Group:
    return Group(
        "datasheet",
        "SMs x clock x rate against the data sheet, TFLOPS or TOPS",
        f"published: {sources(sheets()[config])}",
        rows,
        ("sparse",),
        note=NOTES.get(config, ""),
    )


GROUPS = {config: (_group(config),) for config in sheets()}
