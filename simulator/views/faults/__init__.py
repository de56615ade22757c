"""Shows the results of fault campaigns to people: reports with tables and pictures, and single faults explained in
words."""
