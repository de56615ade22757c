"""Studies: modules that answer a question by many simulations, such as how accurate a chip adds, what a GEMM costs, how
near a run is to the roofline, and how well the simulator agrees with measurements."""
