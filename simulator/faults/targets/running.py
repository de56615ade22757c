"""The base class of fault targets that run: traces and captured launches, in which a fault has a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm
from isa.forms.record import Form
from isa.forms.wgmma import WgmmaForm
from isa.targets import Target
from isa.types import Bits, ElementType
from simulator.applications.stored import Stored
from simulator.arithmetic import Sum
from simulator.faults.aim.executed import Static
from simulator.faults.detectors.asked import Asked, asked
from simulator.faults.detectors.checksums import FalseAlarms
from simulator.faults.detectors.named_product import read_product
from simulator.faults.detectors.products import Maker, Product
from simulator.faults.intervals import Accessed
from simulator.faults.models import Mask
from simulator.faults.outcomes import Results, Whole
from simulator.faults.spread import Site
from simulator.faults.table import SITES, Faults
from simulator.faults.targets.target import FaultTarget
from simulator.faults.unit.forms import form_sites, has_unit, unit_sum


class RunningTarget(FaultTarget):
    """A program of several warps, and what it stores."""

    when = True

    @property
    @abstractmethod
    def stored(self) -> Stored:
        """The comparison of what is stored with what is stored without faults."""

    @property
    @abstractmethod
    def warps_of_a_cta(self) -> int:
        """How many warps a CTA has."""

    @abstractmethod
    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp executes."""

    @property
    def registers_of_a_thread(self) -> int:
        """How many registers a chip gives a thread; 0 where that is not known."""
        return 0

    def whole(self, warp: int) -> NDArray[np.bool_]:
        """Whether it is known that all threads of a warp execute each dynamic instruction, bool [n]."""
        return np.zeros(self.instructions(warp), np.bool_)

    @abstractmethod
    def executed(self, warp: int) -> NDArray[np.int64]:
        """Of each dynamic instruction of a warp the number of its item, int64 [n]."""

    @abstractmethod
    def statics(self, warp: int) -> dict[int, Static]:
        """The instructions of a warp's program by number of item."""

    @abstractmethod
    def register_words(self, names: Iterable[str], site: str = "registers") -> tuple[int, ...]:
        """The words of a site of registers that these registers are."""

    @abstractmethod
    def accessed(self, site: str, cta: int) -> Accessed:
        """When the words of a memory of a CTA are accessed; ConfigError where that is not known."""

    @abstractmethod
    def names_of(self, register: str) -> tuple[str, ...]:
        """What the text calls a register."""

    @property
    @abstractmethod
    def chip(self) -> Target:
        """The chip whose arithmetic is used."""

    @property
    @abstractmethod
    def forms(self) -> Iterator[Form]:
        """The forms of the instructions of the text, in order."""

    @cached_property
    def _on_units(self) -> dict[int, frozenset[int]]:
        """By warp, the numbers of the items that a unit executes which faults can strike."""
        return {}

    def multiplies(self, warp: int, index: int) -> bool:
        """Whether a unit that faults can strike executes a dynamic instruction."""
        if warp not in self._on_units:
            forms = {
                item: one.instruction.form for item, one in self.statics(warp).items() if one.instruction is not None
            }
            self._on_units[warp] = frozenset(item for item, form in forms.items() if has_unit(form))
        return index < self.instructions(warp) and int(self.executed(warp)[index]) in self._on_units[warp]

    @cached_property
    def _unit_form(self) -> MmaForm | WgmmaForm | None:
        """The form of the first matrix instruction that faults of the unit can strike, if there is one."""
        return next((form for form in self.forms if has_unit(form)), None)

    @property
    def unit_sites(self) -> dict[str, Site]:
        """The sites of the units that execute that instruction; none without one."""
        return {} if self._unit_form is None else form_sites(self._unit_form, self.chip, self.arithmetic)

    @property
    def unit_sum(self) -> Sum:
        """How that instruction adds, which says what the words of its unit are."""
        assert self._unit_form is not None
        return unit_sum(self._unit_form, self.chip, self.arithmetic)

    # Checksums of what is stored

    @property
    @abstractmethod
    def maker(self) -> Maker:
        """What makes the stored results without faults, from the program's operands or from others."""

    def prepared(self, detectors: Asked) -> Asked:
        """As of every target: with the tolerances of a product's checksums."""
        product = self._product(detectors)
        return detectors if product is None else replace(detectors, tolerances=product.calibrated().tolerances)

    def false_alarms(self) -> FalseAlarms | None:
        """As of every target, of the product that the run is asked to check."""
        product = self._product(asked())
        return None if product is None else product.false_alarms()

    def look_at_product(self, results: Results, got: Bits, right: Bits, whole: Whole) -> None:
        """Adds what checksums of a product say of corruptions, if they are asked for; arguments as `Product.look`."""
        product = self._product(asked())
        if product is not None:
            product.look(results, got, right, whole)

    def look_at_right(self, results: Results, masked: Mask) -> None:
        """As of every target, of the product that the run is asked to check."""
        product = self._product(asked())
        if product is not None:
            product.look_at_right(results, masked)

    @cached_property
    def _products(self) -> dict[tuple[Any, ...], Product]:
        return {}

    def _product(self, detectors: Asked) -> Product | None:
        """The product whose checksums are asked for."""
        if "abft" not in detectors.names:
            return None
        key = detectors.product, *detectors.tolerances
        if key not in self._products:
            named, maker = read_product(detectors.product), self.maker
            self._products[key] = Product(named, maker.place(named), self.stored, maker, detectors.tolerances)
        return self._products[key]

    # Checksums of metadata

    @abstractmethod
    def summed(self, bits: int) -> Any:
        """The checksums of metadata without faults, of so many bits: `TraceSums` or `LaunchSums`."""

    def metadata_sums(self) -> Any:
        """The same, if the run is asked for them; else None."""
        bits = asked().metadata_bits
        if bits is None:
            return None
        if bits not in self._sums:
            self._sums[bits] = self.summed(bits)
        return self._sums[bits]

    @cached_property
    def _sums(self) -> dict[int, Any]:
        return {}

    def right(self, case: int) -> tuple[Bits, ElementType | None]:
        """What is stored without faults, and its type."""
        return self.stored.golden_matrix, self.stored.element

    def apart(self, faults: Faults) -> NDArray[np.bool_]:
        """A second run has registers and memories of its own, and the same buffers before it."""
        return np.asarray((faults["site"] != SITES.index("global")) | (faults["at"] >= 0))
