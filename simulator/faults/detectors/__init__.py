"""What looks for faults: checks of codes and checksums of products."""
