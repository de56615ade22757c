"""The tables of instructions. A form is one legal spelling of an opcode; the tables hold every form that the project
knows, with its operands, its targets and its PTX version."""
