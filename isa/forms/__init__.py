"""The rows: every instruction form that the project knows, with its operands, targets and versions."""
