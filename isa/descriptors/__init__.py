"""Instruction descriptors and zero-column masks: the words of bit fields that tell `tcgen05.mma` what to compute."""
