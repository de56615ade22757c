"""The time of kernels: what ptxas would make of the PTX, in which order, and what the warps of an SM did of it."""
