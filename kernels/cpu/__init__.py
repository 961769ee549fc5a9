"""Native CPU kernels behind a C ABI."""
