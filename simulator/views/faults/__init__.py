"""Results of fault campaigns for people."""
