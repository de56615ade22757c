"""How many images change their class, for many faulty runs of a layer of the digits network at once.

The scores of an image are computed in float64 from those without faults and from what has changed. They decide where
they are further apart than the float32 of `simulator.applications.digits` can err; where they are not, and where a
number is not finite, the caller has to run the network itself. So the answer is the same in each case.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.applications.digits import Classifier, simulated_layers, stored_arrays
from simulator.applications.digits_plan import Plan, layer_results, values
from simulator.applications.stored import ROW_BYTES, Stored

Reals = NDArray[np.float64]
_LARGEST = 1e30  # of what float32 adds up far from its end
_UNIT = 2.0**-24  # half a unit in the last place of float32, relative


class ClassChanges:
    """The network from the stored words of one layer on.

    Args:
        stored: what the layer's program stores without faults.
        classifier, plan: the network, and the layer.
    """

    def __init__(self, stored: Stored, classifier: Classifier, plan: Plan) -> None:
        self._plan, self._stored = plan, stored
        network, weights = plan.network, classifier.weights
        end = "dense" if network == "4of8" else network
        self._w, self._b = (weights[f"{name}3_{end}"].astype(np.float32).astype(np.float64) for name in "wb")
        scale = classifier.data["w_scale"][:, None] * classifier.data["x_scale"]
        arrays = stored_arrays(stored.golden, plan)
        layer = simulated_layers(plan, arrays, classifier.data)[0]
        self._scale: NDArray[Any] = np.broadcast_to(scale, layer.shape)
        self._hidden: Reals = np.maximum(layer, 0).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            self._scores = self._hidden.T @ self._w.T + self._b
            self._sizes = self._hidden.T @ np.abs(self._w).T + np.abs(self._b)
        self._output, self._image = self._places(arrays)
        self._error = 4 * (len(self._hidden) + 2) * _UNIT
        self._labels = classifier.labels
        self._right = int((stored.digits == self._labels).sum())

    @classmethod
    def of(cls, stored: Stored) -> ClassChanges | None:
        """That of a layer's program; None for one whose results do not lie in 32-bit words of one layer."""
        classifier = stored.classifier
        if classifier is None or not isinstance(classifier.plan, Plan):
            return None
        return cls(stored, classifier, classifier.plan)

    def _places(self, arrays: list[NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """By stored word, in the order of `Stored.matrix`, the output and the image of the layer; -1 for none. The
        layer is read from words that hold their own numbers."""
        first, starts = 0, dict[str, int]()
        for name, array in sorted(self._stored.golden.items()):
            starts[name] = first
            first += -(-array.nbytes // ROW_BYTES) * (ROW_BYTES // 4)
        keys = [self._plan.d_key, *[self._plan.head_key] * bool(self._plan.head)]
        numbered = [
            (starts[key] + np.arange(array.nbytes // 4, dtype="<u4"))
            .astype("<u4")
            .view(array.dtype)
            .reshape(array.shape)
            for key, array in zip(keys, arrays, strict=True)
        ]
        words = layer_results(self._plan, numbered[0], numbered[-1])
        places = np.full((2, first), -1, np.int64)
        places[:, words] = np.indices(words.shape)
        return places[0], places[1]

    def count(
        self, copy: NDArray[np.intp], place: NDArray[np.int64], value: NDArray[np.uint8], copies: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """How many images of each copy are read as another digit, how many as the digit that they show, and whether
        that is certain.

        Args:
            copy, place, value: bytes that differ, in the order of copies and places, see
                `simulator.faults.targets.differences`.
        """
        copy, word, pattern = self._words(copy, place, value)
        output, image = self._output[word], self._image[word]
        inside = output >= 0
        copy, output, image, pattern = copy[inside], output[inside], image[inside], pattern[inside]
        with np.errstate(over="ignore", invalid="ignore"):
            layer = values(pattern, self._plan.form.d_type) * self._scale[output, image]
            new = np.maximum(layer, 0).astype(np.float64)
            change = new - self._hidden[output, image]
        some = np.flatnonzero(change != 0)
        copy, output, image, new, change = copy[some], output[some], image[some], new[some], change[some]
        images = self._hidden.shape[1]
        key, at = np.unique(copy * images + image, return_inverse=True)
        owner, which = np.divmod(key, images)
        scores, sizes = self._scores[which], self._sizes[which]
        with np.errstate(over="ignore", invalid="ignore"):
            for number, weights in enumerate(self._w):
                weight = weights[output]
                scores[:, number] += np.bincount(at.ravel(), change * weight, len(key))
                sizes[:, number] += np.bincount(at.ravel(), np.abs(new * weight), len(key))
        digit, sure = self._decided(scores, sizes)
        changed = np.bincount(owner[digit != self._stored.digits[which]], minlength=copies)
        labels, before = self._labels[which], self._stored.digits[which]
        gained = np.bincount(owner, (digit == labels) * 1.0 - (before == labels), copies).astype(np.int64)
        certain = np.bincount(owner[~sure], minlength=copies) == 0
        return changed, self._right + gained, certain

    def _decided(self, scores: Reals, sizes: Reals) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The digit of the largest score [image, digit], and whether float32 must find the same."""
        pairs = np.arange(len(scores))
        digit = scores.argmax(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            error = self._error * sizes
            apart = scores[pairs, digit][:, None] - scores - error - error[pairs, digit][:, None]
            apart[pairs, digit] = np.inf
            finite = np.isfinite(scores).all(axis=1) & (sizes < _LARGEST).all(axis=1)
        return digit, finite & (apart > 0).all(axis=1)

    def _words(
        self, copy: NDArray[np.intp], place: NDArray[np.int64], value: NDArray[np.uint8]
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.uint32]]:
        """The words of bytes that differ: copy, number, and what they hold."""
        word = place // 4
        fresh = (np.diff(copy, prepend=-1) != 0) | (np.diff(word, prepend=-1) != 0)
        copy, word, number = copy[fresh], word[fresh], np.cumsum(fresh) - 1
        golden = np.ascontiguousarray(self._stored.golden_matrix.astype(f"<u{self._stored.width}")).view("<u4").ravel()
        held = golden[word].copy()
        held.view(np.uint8).reshape(-1, 4)[number, place % 4] = value
        return copy, word, held.astype(np.uint32)
