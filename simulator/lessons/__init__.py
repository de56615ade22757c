"""The lessons that come with tcsim: what they are, the data that they read, and the check of their exercises."""

from __future__ import annotations

from simulator.lessons.catalogue import Lesson, copy, data, lessons
from simulator.lessons.exercises import check

__all__ = ["Lesson", "check", "copy", "data", "lessons"]
