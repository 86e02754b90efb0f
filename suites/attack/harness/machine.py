"""What the kernel tells about a process: its memory, its descriptors, its children."""

import os
import re
import stat
from pathlib import Path

from driver import processes

MIB = 1024 * 1024


def peak_bytes(pid):
    """The most resident memory it ever had."""
    return status_kib(pid, "VmHWM") * 1024


def resident_bytes(pid):
    return status_kib(pid, "VmRSS") * 1024


def file_bytes(pid):
    """Resident memory that is pages of files, the program's own code among them."""
    return status_kib(pid, "RssFile") * 1024


def status_kib(pid, field):
    found = re.search(rf"^{field}:\s+(\d+) kB", processes.read(pid, "status").decode(), re.MULTILINE)
    return int(found[1]) if found else 0


def processor_ticks(pid):
    """The processor time that it has used, in hundredths of a second."""
    fields = processes.read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def proportional_bytes(pid):
    """Resident memory with shared pages divided among those who share them; 0 where the kernel does not say."""
    found = re.search(r"^Pss:\s+(\d+) kB", processes.read(pid, "smaps_rollup").decode(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def forget_peak(pid):
    """Starts the measuring of the peak anew. Returns whether the kernel let us."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        return True
    except OSError:
        return False


def descriptors(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def folder_bytes(folder):
    """What the files below a folder hold, and how many there are."""
    total = count = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                found = os.lstat(os.path.join(parent, name))
            except OSError:
                continue
            count += 1
            if stat.S_ISREG(found.st_mode):
                total += min(found.st_size, found.st_blocks * 512)
    return total, count


def mib(number):
    return f"{number / MIB:.1f} MiB"
