"""The cases, by topic. Importing this registers them all."""

from . import pipes, output, cancel, timeout, truth, surroundings, jobs, input, stop, survival  # noqa: F401
