// See cpu_features.h.

#include "cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace radixrt {

InstructionSet best_instruction_set() {
#if defined(__x86_64__)
    // The builtin also asks whether the system saves the wide registers. It knows no name for F16C in every
    // compiler.
    __builtin_cpu_init();
    unsigned a, b, c, d;
    const bool f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    if (!f16c || !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return InstructionSet::generic;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni")) {
        return InstructionSet::avx512;
    }
    return InstructionSet::avx2;
#else
    return InstructionSet::generic;
#endif
}

}  // namespace radixrt

extern "C" int32_t radixrt_best_instruction_set(void) {
    return static_cast<int32_t>(radixrt::best_instruction_set());
}
