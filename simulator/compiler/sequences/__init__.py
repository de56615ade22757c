"""Matrix instructions that a chip does not have: the sequences of machine instructions that ptxas writes for them."""
