"""Every measured or published number of a chip, beside what the engine says."""
