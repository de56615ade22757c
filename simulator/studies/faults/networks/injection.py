"""Injects faults into one layer of a network, and says what becomes of the layer, of the scores and of the classes.

The layer under test is computed as the chip does, with and without the fault; all other layers as they are, in float32.
Only what a fault has changed is computed again: elements of D, then the network behind the layer, for the images whose
outputs of the layer differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.faults.outcomes import DUE, MASKED, OUTCOMES, SDC
from simulator.faults.table import Faults, to_frame
from simulator.studies.faults.networks.faults import Drawn, draw, inverted, site_of
from simulator.studies.faults.networks.layer import SparseLayer, sparse_layer
from simulator.studies.faults.networks.number_types import numbers_of
from simulator.studies.faults.networks.sites import Changes, Running
from simulator.studies.faults.networks.subject import Subject

Array = NDArray[Any]
FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "i8"), ("outcome", "u1"), ("elements", "u4"), ("nonfinite", "u4"), ("images", "u4"), ("max_abs", "f8"),
    ("scores", "f8"), ("classes", "u4"), ("correct", "u4"),
)  # fmt: skip
"""Of each fault: `elements` of D that differ, how many of them became NaN or infinite, `images` whose outputs of the
layer differ, the largest differences `max_abs` of the layer's outputs and of the `scores`, how many images change their
class, and how many are recognised."""
DTYPE = np.dtype(list(FIELDS))
_CASES = 1 << 21  # outputs of the layer that go through the rest of the network together


class Cases(NamedTuple):
    """Faults with images whose outputs of the layer they change.

    Attributes:
        fault, image: the index of the fault, and the image, [case].
        changed: whether the image's class changes, [case].
        of: the case of each element of the `Changes`, [element].
    """

    fault: NDArray[np.int64]
    image: NDArray[np.int64]
    changed: NDArray[np.bool_]
    of: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Campaign:
    """One layer of a network under faults.

    Attributes:
        subject: the network and its images.
        layer: the layer, in storage.
    """

    subject: Subject
    layer: SparseLayer

    @cached_property
    def running(self) -> Running:
        """The layer with what it reads."""
        b = self.layer.operand(self.subject.inputs(self.layer.name))
        return Running(self.layer, b, self.layer.product(b))

    @property
    def places(self) -> int:
        """Columns of D that belong to an image."""
        return self.running.columns // len(self.subject.labels)

    @cached_property
    def outputs(self) -> NDArray[np.float32]:
        """The layer's outputs without a fault, [image, place, output]."""
        d = self.layer.outputs(self.running.d)
        return np.ascontiguousarray(d.T.reshape(len(self.subject.labels), self.places, self.layer.rows))

    @cached_property
    def scores(self) -> Array:
        """Scores [image, class] without a fault."""
        images = np.arange(len(self.subject.labels))
        return np.concatenate(
            [self.subject.scores(self.layer.name, images[p], self.outputs[p]) for p in self._pieces(len(images))]
        )

    @cached_property
    def classes(self) -> NDArray[np.intp]:
        """The classes without a fault, [image]."""
        return np.asarray(self.scores.argmax(axis=1))

    @property
    def accuracy(self) -> float:
        """The share of images that the network recognises, without a fault in this layer."""
        return float((self.classes == self.subject.labels).mean())

    def draw(self, site: str, count: int | None = None, seed: int = 0, model: str = "flip", bits: int = 1) -> Drawn:
        """Faults of a site; arguments and errors as in `faults.draw`."""
        return draw(self.running, site, count, seed, model, bits)

    def changes(self, site: str, faults: Faults) -> Iterator[Changes]:
        """The elements of D that faults of one site change, as they are computed: each fault's all together; `fault` is
        its index. Faults that stop the chip have none."""
        where = site_of(site)
        word = faults["word"].astype(np.int64)
        invert = inverted(self.running, where, faults)
        live = np.flatnonzero((invert != 0) & where.legal(self.running, word, invert))
        if not len(live):
            return
        held: list[Changes] = []
        for part in where.effect(self.running, word[live], invert[live]):
            held.append(part)
            last = part.fault[-1] if len(part.fault) else -1
            ready = _joined(held)
            cut = np.searchsorted(ready.fault, last)  # a fault of several rows may go on in the next part
            held = [_cut(ready, slice(cut, None))]
            yield from _renumbered(ready, slice(None, cut), live)
        for rest in held:
            yield from _renumbered(rest, slice(None), live)

    def run(self, site: str, faults: Faults) -> NDArray[Any]:
        """What becomes of faults of one site: a row of `FIELDS` each."""
        results = self.blank(faults["id"])
        where = site_of(site)
        invert = inverted(self.running, where, faults)
        legal = where.legal(self.running, faults["word"].astype(np.int64), invert)
        results["outcome"] = np.where(legal | (invert == 0), MASKED, DUE)
        for changes in self.changes(site, faults):
            self.judge(results, changes)
        return results

    def blank(self, ids: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Rows of `FIELDS` for faults with these ids, all of them masked."""
        results = np.zeros(len(ids), DTYPE)
        results["id"] = ids
        results["correct"] = int((self.classes == self.subject.labels).sum())
        return results

    def judge(self, results: NDArray[Any], changes: Changes) -> Cases:
        """Fills in the rows of the faults that these elements are of, all elements of each.

        Returns:
            The cases: each fault with each image whose outputs of the layer it changes.
        """
        values = self.layer.outputs(changes.word, changes.row)
        before = self.outputs.reshape(-1, self.layer.rows)[changes.column, changes.row]
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(values.astype(np.float64) - before)
            odd = ~np.isfinite(numbers_of(changes.word, self.layer.kind.result))
        np.add.at(results["elements"], changes.fault, 1)
        np.add.at(results["nonfinite"], changes.fault, odd)
        np.maximum.at(results["max_abs"], changes.fault, np.where(np.isnan(apart), np.inf, apart))
        results["outcome"][changes.fault] = SDC
        image, place = np.divmod(changes.column, self.places)
        cases, case = np.unique(changes.fault * len(self.subject.labels) + image, return_inverse=True)
        fault, image = np.divmod(cases, len(self.subject.labels))
        order = np.argsort(case, kind="stable")
        ends = np.searchsorted(case[order], np.arange(len(cases) + 1))
        changed = np.zeros(len(cases), np.bool_)
        for part in self._pieces(len(cases)):
            mine = order[ends[part.start] : ends[part.stop]]
            outputs = self.outputs[image[part]]
            outputs[case[mine] - part.start, place[mine], changes.row[mine]] = values[mine]
            changed[part] = self._classify(results, fault[part], image[part], outputs)
        return Cases(fault, image, changed, case)

    def _classify(
        self, results: NDArray[Any], fault: NDArray[np.int64], image: NDArray[np.int64], outputs: Array
    ) -> NDArray[np.bool_]:
        """Fills in what becomes of scores and classes; returns which classes change, [case]."""
        scores = self.subject.scores(self.layer.name, image, outputs)
        classes, labels = scores.argmax(axis=1), self.subject.labels[image]
        with np.errstate(invalid="ignore", over="ignore"):
            apart = np.abs(scores.astype(np.float64) - self.scores[image]).max(axis=1)
        np.add.at(results["images"], fault, 1)
        np.add.at(results["classes"], fault, classes != self.classes[image])
        np.maximum.at(results["scores"], fault, np.where(np.isnan(apart), np.inf, apart))
        gained = (classes == labels).astype(np.int64) - (self.classes[image] == labels)
        total = results["correct"].astype(np.int64)
        np.add.at(total, fault, gained)
        results["correct"] = total
        return np.asarray(classes != self.classes[image])

    def _pieces(self, count: int) -> Iterator[slice]:
        step = max(_CASES // (self.places * self.layer.rows * 8), 16)
        return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _joined(parts: list[Changes]) -> Changes:
    """Several parts as one."""
    fault, row, column = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return Changes(fault, row, column, np.concatenate([part.word for part in parts]))


def _cut(changes: Changes, part: slice) -> Changes:
    """A part of some changes."""
    return Changes(changes.fault[part], changes.row[part], changes.column[part], changes.word[part])


def _renumbered(changes: Changes, part: slice, live: NDArray[np.int64]) -> Iterator[Changes]:
    """A part of some changes, with the numbers of faults of which only the live ones were run; nothing for none."""
    mine = _cut(changes, part)
    if len(mine.fault):
        yield mine._replace(fault=live[mine.fault])


def campaign(
    subject: Subject, layer: str, *, type: str = "f16", target: str = "sm_90a", storage: str = "cusparselt",
    pruned: bool = True,
) -> Campaign:  # fmt: skip
    """A campaign on a layer of a network; arguments and errors as in `layer.sparse_layer`."""
    weight, bias = subject.weights(layer)
    stored = sparse_layer(
        layer, weight, bias, type=type, largest_input=subject.largest(layer), target=target, storage=storage,
        pruned=pruned,
    )  # fmt: skip
    return Campaign(subject, stored)


def results_frame(results: NDArray[Any]) -> Any:
    """Results as a pandas DataFrame, outcomes as words."""
    return to_frame(results, {"outcome": OUTCOMES})
