"""Native CPU kernels: C++17 behind a C ABI, called through ctypes, which releases the GIL.

``pip install`` builds them as an optional step. Without a compiler every kernel has a numpy or plain Python path
with equal results, and the first use says so once. Needs no torch. A kernel is one ``.cpp`` file here and one
module that wraps it; the wrapper checks every size before the native code sees a pointer.
"""

from __future__ import annotations

from radixrt.kernels.cpu.library import build_info, native

__all__ = ["build_info", "native"]
