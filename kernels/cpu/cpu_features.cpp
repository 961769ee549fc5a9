// See cpu_features.h.

#include "cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace radixrt {

#if defined(__x86_64__)

namespace {

// The registers whose contents the system saves when it switches threads.
uint32_t saved_registers() {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

constexpr bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

}  // namespace

// Asked of the processor itself: the builtin of the compilers does not know F16C everywhere, and says no to all in
// libraries that were linked without the compiler's own runtime.
InstructionSet best_instruction_set() {
    constexpr uint32_t kSaved256 = 0x06, kSaved512 = 0xe6;
    uint32_t a, b, c, d, b7, c7;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C)) {
        return InstructionSet::generic;
    }
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d) || !has(b7, bit_AVX2) || !has(saved_registers(), kSaved256)) {
        return InstructionSet::generic;
    }
    const bool wide = has(b7, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL) && has(c7, bit_AVX512VNNI);
    return wide && has(saved_registers(), kSaved512) ? InstructionSet::avx512 : InstructionSet::avx2;
}

#else

InstructionSet best_instruction_set() { return InstructionSet::generic; }

#endif

}  // namespace radixrt

extern "C" int32_t radixrt_best_instruction_set(void) {
    return static_cast<int32_t>(radixrt::best_instruction_set());
}
