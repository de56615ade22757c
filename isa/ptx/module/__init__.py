"""Whole PTX modules: text as nvcc, Triton or CUTLASS print it -> functions, variables and their statements."""

from isa.ptx.module.module import Function, Module, Parameter, Statement, Variable
from isa.ptx.module.parser import parse_module

__all__ = ["Function", "Module", "Parameter", "Statement", "Variable", "parse_module"]
