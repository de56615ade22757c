"""Tensor Memory, the memory beside Blackwell's tensor cores: its addresses, where D, A, metadata and scale factors lie
in it, and the instructions that move data in and out."""
