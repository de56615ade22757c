"""The timed code of kernels: machine instructions as ptxas would write them, or as a file has them, and the path of
each warp through them."""
