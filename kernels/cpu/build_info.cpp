// Says how this library was built, for `radixrt doctor`.

extern "C" const char *radixrt_build_info(void) {
#if defined(__x86_64__)
#define RADIXRT_ARCH "x86_64"
#elif defined(__aarch64__)
#define RADIXRT_ARCH "aarch64"
#else
#define RADIXRT_ARCH "other"
#endif
#if defined(__clang__)
    return "clang " __VERSION__ ", " RADIXRT_ARCH;
#else
    return "gcc " __VERSION__ ", " RADIXRT_ARCH;
#endif
}
