"""Applications of the traces that come with tcsim: the neural networks whose layers the traces compute."""
