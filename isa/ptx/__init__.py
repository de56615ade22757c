"""Reads PTX text into instructions and prints them back. The package decodes single instructions as well as whole
files."""
