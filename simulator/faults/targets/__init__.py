"""What faults are injected into: one instruction, a trace, a captured launch."""
