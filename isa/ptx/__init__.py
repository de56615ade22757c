"""PTX text to instructions and back: scanner, opcodes, decoder, whole files."""
