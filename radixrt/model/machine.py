"""What this process may use of the machine: processors and memory, container limits included.

Reads the process's affinity, ``/proc`` and its control groups (versions 1 and 2). Where a file is absent the
limit it would state does not exist. This module does not know what the resources are for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["available_memory", "cpu_quota"]

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")


def cpu_quota(*, proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Whole processors this process may keep busy, at least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [float(count)]
    for folder in _groups(proc, cgroup, "cpu"):
        words = (_read(folder / "cpu.max") or "").split()
        if not words:
            words = [_read(folder / "cpu.cfs_quota_us") or "", _read(folder / "cpu.cfs_period_us") or ""]
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            limits.append(int(words[0]) / int(words[1]))
    return max(1, math.floor(min(limits)))


def available_memory(*, proc: Path = PROC, cgroup: Path = CGROUP) -> int:
    """Bytes that can be allocated without swapping or reaching a container limit."""
    available = [_meminfo(proc)]
    for folder in _groups(proc, cgroup, "memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _read(folder / limit_name), _read(folder / used_name)
            if limit is not None and used is not None and limit.isdigit() and used.isdigit():
                available.append(int(limit) - int(used) + _reclaimable(folder))
    return max(0, min(available))


def _meminfo(proc: Path) -> int:
    for line in (_read(proc / "meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) * 1024
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return pages * size // 2


def _reclaimable(folder: Path) -> int:
    """File cache that counts as used in a group and is given back under pressure."""
    for line in (_read(folder / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file") and value.isdigit():
            return int(value)
    return 0


def _groups(proc: Path, cgroup: Path, controller: str) -> Iterator[Path]:
    """The folders of the process's control group and of all its parents, for both versions."""
    for line in (_read(proc / "self" / "cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        _, names, path = parts
        if names and controller not in names.split(","):
            continue
        root = cgroup / controller if names else cgroup
        folder = root / path.strip("/")
        # Inside a container the path may be one of the host's: then only the root is there.
        while folder != root and root in folder.parents:
            yield folder
            folder = folder.parent
        yield root


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
