"""Views: everything that shows layouts and results to people, as drawings, the explorer, timelines, plots and
tables."""
