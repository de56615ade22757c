"""Pictures of layouts, as SVG text."""
