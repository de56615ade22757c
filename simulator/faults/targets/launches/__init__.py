"""Faults in captured launches: a launch for each, and many together as copies of the CTAs that they strike."""
