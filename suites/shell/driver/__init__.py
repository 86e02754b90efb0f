"""Drives a server, watches its processes, and reports. The cases themselves are in `cases`."""
