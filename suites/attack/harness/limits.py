"""What this process itself may use while it attacks."""

import resource

from .case import Skip


def room_for_files(count):
    """Raises our own limit of open files, or skips the case."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 200:
        raise Skip(f"this process may open only {hard} files")
    if soft < count + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
