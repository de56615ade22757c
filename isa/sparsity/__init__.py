"""What follows from the table of sparsity patterns (`isa.patterns`): matrices as they store them (`storage`), and the
fragments of matrix instructions that no chip has (`forms`)."""
