"""Sparsity patterns as data: the table (`patterns`), matrices as they store them (`storage`), and the fragments of
matrix instructions that no chip has (`forms`)."""
