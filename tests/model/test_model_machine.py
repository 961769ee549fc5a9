"""Container limits, read from made-up ``/proc`` and ``/sys/fs/cgroup`` trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from radixrt.model.machine import available_memory, cpu_quota

AFFINITY = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
GIB = 1 << 30


def tree(root: Path, files: dict[str, str]) -> tuple[Path, Path]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "proc", root / "cgroup"


MEMINFO = {"proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable:   {8 * GIB // 1024} kB\n"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, AFFINITY),
        ({"proc/self/cgroup": "0::/a/b\n", "cgroup/a/cpu.max": "100000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a/b\n", "cgroup/a/b/cpu.max": "max 100000\n"}, AFFINITY),
        ({"proc/self/cgroup": "0::/a\n", "cgroup/a/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/gone\n", "cgroup/cpu.max": "100000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n2:memory:/y\n",
                "cgroup/cpu/x/cpu.cfs_quota_us": "100000\n",
                "cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu:/x\n",
                "cgroup/cpu/x/cpu.cfs_quota_us": "-1\n",
                "cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            AFFINITY,
        ),
        ({"proc/self/cgroup": "nonsense\n::\n0::/../..\n", "cgroup/cpu.max": "garbage"}, AFFINITY),
        ({"proc/self/cgroup": "0::/\n", "cgroup/cpu.max": "100000 0"}, AFFINITY),
    ],
)
def test_cpu_quota(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    proc, cgroup = tree(tmp_path, files)
    assert cpu_quota(proc=proc, cgroup=cgroup) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8 * GIB),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "cgroup/a/memory.max": f"{4 * GIB}\n",
                "cgroup/a/memory.current": f"{3 * GIB}\n",
                "cgroup/a/memory.stat": f"anon 5\ninactive_file {GIB}\n",
                "cgroup/a/b/memory.max": "max\n",
                "cgroup/a/b/memory.current": f"{GIB}\n",
            },
            2 * GIB,
        ),
        (
            {
                "proc/self/cgroup": "7:memory:/x\n0::/\n",
                "cgroup/memory/x/memory.limit_in_bytes": f"{2 * GIB}\n",
                "cgroup/memory/x/memory.usage_in_bytes": f"{GIB}\n",
            },
            GIB,
        ),
        (
            {
                "proc/self/cgroup": "0::/a\n",
                "cgroup/a/memory.max": f"{GIB}\n",
                "cgroup/a/memory.current": f"{2 * GIB}\n",
            },
            0,
        ),
    ],
)
def test_available_memory(tmp_path: Path, files: dict[str, str], expected: int) -> None:
    proc, cgroup = tree(tmp_path, files | MEMINFO)
    assert available_memory(proc=proc, cgroup=cgroup) == expected


def test_this_machine() -> None:
    assert 1 <= cpu_quota() <= AFFINITY
    assert available_memory() > 0
