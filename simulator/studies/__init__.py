"""Questions asked of many runs: accuracy, GEMMs, rooflines, validation."""
