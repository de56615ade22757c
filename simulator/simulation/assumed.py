"""Which tables of a config the time of instructions comes from, and which of them are assumed: what reports say a time
rests on although nobody has measured or published it."""

from __future__ import annotations

from collections.abc import Iterable

from isa.forms.mma import is_mma
from isa.forms.record import Form
from simulator.chip.config import Config
from simulator.compiler.tcgen05 import sources
from simulator.errors import ConfigError
from simulator.execute.dynamic_info import Fact


def tables_of(config: Config | None, forms: Iterable[Form], facts: Iterable[Fact]) -> set[str]:
    """The tables, by their names among `Config.sources`, of the times of instructions and of what asynchronous ones
    did."""
    tables: set[str] = set()
    for form in forms:
        if is_mma(form):
            tensor = config.tensor_class(form) if config is not None else None
            tables |= {f"tensor {tensor.name}"} if tensor else {"sequences"}
        elif not form.asynchronous:
            tables |= {form.time.table}
        elif form.time.table == "mbarrier":
            tables |= {"mbarrier" if config is not None and config.mbarrier is not None else "tcgen05.mbarrier"}
    if config is not None:
        tables.update(table for fact in facts for table in sources(config, fact))
    return tables


def assumed_tables(config: Config, tables: Iterable[str]) -> list[str]:
    """Those of these tables that are assumed, with their sources, by name.

    Raises:
        ConfigError: a table that the config does not have.
    """
    try:
        return [f"[{table}] {config.sources[table]}" for table in sorted(tables) if config.status(table) == "assumed"]
    except KeyError as error:
        raise ConfigError(config.path, str(error), "no source", "a source for each table") from None
