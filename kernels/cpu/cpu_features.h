// Which instruction sets there is a kernel for and which of them this machine has.
// What it does not know: the kernels.

#pragma once

#include <cstdint>

namespace radixrt {

// Each includes those before it. Values are part of the C ABI.
enum class InstructionSet : int32_t {
    generic = 0,  // what the compiler makes of plain C++
    avx2 = 1,     // with FMA and F16C
    avx512 = 2,   // F, BW, DQ, VL and VNNI: Ice Lake, Zen 4 and later
};

// Asked of the processor at every call; keep the answer.
InstructionSet best_instruction_set();

}  // namespace radixrt
