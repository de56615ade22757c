"""Where the elements of an operand, its metadata and its scale factors live in the registers of a warp."""
