"""Numpy expressions over named arrays, such as `A.astype(float32) @ B`: what `--expect` takes as a reference.

An expression is read as a syntax tree, and nothing but what is listed here is evaluated: arithmetic, comparisons,
`and`, `or` and `not` (of each element), indexing, and the functions, methods and attributes of numpy below. There are
no other names, and no way to a file.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from simulator.errors import ReasonedError, did_you_mean

MOST_BITS = 4096  # of a power of whole numbers
_TYPES = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "complex64", "complex128",
)  # fmt: skip
_FUNCTIONS = (
    "abs", "absolute", "all", "any", "arange", "arctan", "argmax", "argmin", "array", "asarray", "broadcast_to",
    "cbrt", "ceil", "clip", "concatenate", "conj", "cos", "cosh", "cumsum", "diag", "divide", "dot", "einsum", "exp",
    "exp2", "expand_dims", "expm1", "eye", "flip", "floor", "floor_divide", "full", "full_like", "hypot", "identity",
    "isfinite", "isinf", "isnan", "kron", "left_shift", "linspace", "log", "log10", "log1p", "log2", "logical_and",
    "logical_not", "logical_or", "matmul", "max", "maximum", "mean", "min", "minimum", "mod", "moveaxis", "nan_to_num",
    "negative", "ones", "ones_like", "outer", "pad", "power", "prod", "repeat", "reshape", "right_shift", "rint",
    "roll", "round", "sign", "sin", "sinh", "sort", "sqrt", "square", "squeeze", "stack", "std", "sum", "swapaxes",
    "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "transpose", "tril", "triu", "trunc", "var",
    "vstack", "hstack", "where", "zeros", "zeros_like",
)  # fmt: skip
_VALUES = ("inf", "nan", "pi", "e", "newaxis")
_METHODS = (
    "all", "any", "argmax", "argmin", "astype", "clip", "conj", "copy", "cumsum", "diagonal", "dot", "flatten", "max",
    "mean", "min", "prod", "ravel", "repeat", "reshape", "round", "squeeze", "std", "sum", "swapaxes", "take", "trace",
    "transpose", "var", "view",
)  # fmt: skip
_ATTRIBUTES = ("T", "dtype", "imag", "itemsize", "nbytes", "ndim", "real", "shape", "size")
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.RShift: operator.rshift,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


class ExpectationError(ReasonedError, ValueError):
    """A reference cannot be had: an expression, a file or an array that does not fit. Attributes as in `Error`."""


def known_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an expression may name: the functions, types and constants of numpy that are allowed, and these values."""
    allowed = {name: getattr(np, name) for name in (*_FUNCTIONS, *_TYPES, *_VALUES)}
    return allowed | {"float": float, "int": int, "bool": bool, "True": True, "False": False} | dict(values)


def evaluate(text: str, values: Mapping[str, Any]) -> Any:
    """The value of an expression.

    Args:
        text: the expression.
        values: by name, the arrays and numbers that it may name; none of them is changed.

    Raises:
        ExpectationError: it is no expression, names what there is not, or numpy refuses it.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "msg", None) or str(error) or type(error).__name__
        raise ExpectationError(f"'{text}' is no expression: {reason}", "such as A.astype(float32) @ B") from None
    try:
        with np.errstate(all="ignore"):
            return _Evaluator(known_names({name: _read_only(value) for name, value in values.items()})).of(tree.body)
    except ExpectationError as error:
        raise ExpectationError(f"'{text}': {error.reason}", error.legal) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, MemoryError, RecursionError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise ExpectationError(f"'{text}': {said}", "shapes and types that fit") from None


def _compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    return _COMPARE[type(op)](left, right)


def _read_only(value: Any) -> Any:
    """A value that a function which writes into its arguments cannot change."""
    if not isinstance(value, np.ndarray):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


class _Evaluator:
    """Evaluates the nodes of a tree; `names` is all that there is."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.names = names

    def of(self, node: ast.expr | None) -> Any:
        """The value of a node."""
        match node:
            case None:
                return None
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.of(left), self.of(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _UNARY[type(op)](self.of(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return np.logical_not(self.of(operand))
            case ast.BoolOp(op=op, values=parts):
                joined = np.logical_and if isinstance(op, ast.And) else np.logical_or
                return reduce(joined, [self.of(part) for part in parts])
            case ast.Compare(left=left, ops=ops, comparators=parts) if all(type(op) in _COMPARE for op in ops):
                sides = [self.of(part) for part in (left, *parts)]
                return (
                    reduce(np.logical_and, map(_compared, ops, sides, sides[1:]))
                    if len(ops) > 1
                    else _compared(ops[0], *sides)
                )
            case ast.Tuple(elts=parts):
                return tuple(self.of(part) for part in parts)
            case ast.List(elts=parts):
                return [self.of(part) for part in parts]
            case ast.Subscript(value=value, slice=index):
                return self.of(value)[self.of(index)]
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(self.of(lower), self.of(upper), self.of(step))
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
        raise ExpectationError(
            f"'{ast.unparse(node)}' is not allowed", "arithmetic, comparisons, indexing, numpy's functions"
        )

    def name(self, name: str) -> Any:
        if name not in self.names:
            raise ExpectationError(
                f"no array or function '{name}'{did_you_mean(name, self.names)}",
                "the kernel's arguments by name, and numpy's functions",
            )
        return self.names[name]

    def binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Pow | ast.LShift):
            return self.power(op, left, right)
        if type(op) not in _BINARY or isinstance(left, str | tuple | list) or isinstance(right, str | tuple | list):
            raise ExpectationError("such an operation is not allowed", "operations of arrays and numbers")
        return _BINARY[type(op)](left, right)

    @staticmethod
    def power(op: ast.operator, left: Any, right: Any) -> Any:
        """A power or a shift, of whole numbers not beyond what anybody needs."""
        if isinstance(left, int) and isinstance(right, int):
            bits = abs(left).bit_length() * abs(right) if isinstance(op, ast.Pow) else left.bit_length() + abs(right)
            if bits > MOST_BITS:
                raise ExpectationError(f"a whole number of {bits:,} bits", f"at most {MOST_BITS:,}, or floats")
        return left**right if isinstance(op, ast.Pow) else left << right

    def attribute(self, node: ast.Attribute) -> Any:
        """An attribute of an array, or a function as `np.sqrt`."""
        if isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy") and node.value.id not in self.names:
            return self.name(node.attr)
        if node.attr not in _ATTRIBUTES:
            self._refuse(node.attr)
        return getattr(_array(self.of(node.value)), node.attr)

    def call(self, node: ast.Call) -> Any:
        """A call of a function or of a method of an array."""
        function = node.func
        if isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name) and function.value.id in ("np", "numpy")
        ):
            if function.attr not in _METHODS:
                self._refuse(function.attr)
            called = getattr(_array(self.of(function.value)), function.attr)
        else:
            called = self.of(function)
            if not callable(called):
                raise ExpectationError(f"'{ast.unparse(function)}' is no function", "one of numpy's")
        keywords = {}
        for each in node.keywords:
            if each.arg is None or each.arg.startswith("_") or each.arg == "out":
                raise ExpectationError(f"argument '{each.arg or '**'}' is not allowed", "a function's other arguments")
            keywords[each.arg] = self.of(each.value)
        return called(*(self.of(argument) for argument in node.args), **keywords)

    @staticmethod
    def _refuse(name: str) -> None:
        allowed = (*_METHODS, *_ATTRIBUTES)
        raise ExpectationError(
            f"no method '.{name}' here{did_you_mean(name, allowed)}", ", ".join(allowed[:12]) + ", ..."
        )


def _array(value: Any) -> Any:
    """A value whose attributes may be asked for."""
    if isinstance(value, np.ndarray | np.generic):
        return value
    raise ExpectationError(f"an attribute of a {type(value).__name__}", "an array's")
