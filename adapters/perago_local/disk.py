"""What is wrong with a disk: asked of the system once something has failed on it, because the failure rarely says.

Counterexamples, seen: SQLite calls a full disk "disk I/O error", and one without inodes, or a process that may open no
more files, "unable to open database file".
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

#: Bytes. With less, SQLite cannot make the files beside its own.
_FULL = 1 << 20
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE)


def trouble(path: Path) -> str:
    """Say why nothing can be written at this path now, and what to do; blank if the system names nothing."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as problem:
        if problem.errno in _NO_MORE_FILES:
            return "No more files may be open: raise the limit (ulimit -n)"
    try:
        found = os.statvfs(next(each for each in (path, *path.parents) if each.exists()))
    except OSError:
        return ""
    free = found.f_bavail * found.f_frsize
    if found.f_flag & os.ST_RDONLY:
        return "The disk is read-only: make it writable"
    if free < _FULL:
        return f"The disk is full, {free >> 10} KiB are left: free some space; what was answered is kept"
    if found.f_files and not found.f_favail:
        return "The disk is full, it has no inodes left: remove some files; what was answered is kept"
    longest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if longest != resource.RLIM_INFINITY:
        return f"A file may have at most {longest} bytes: raise the limit (ulimit -f); what was answered is kept"
    return ""
