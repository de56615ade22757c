"""What people look at: drawings, the explorer, timelines, plots, tables."""
