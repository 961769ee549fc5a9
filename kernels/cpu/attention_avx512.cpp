// Attention for AVX-512; see attention_span.h. Without the instruction set's flags it compiles to nothing.

#if defined(__AVX512F__)
#define RADIXRT_SIMD_AVX512
#include "attention_span.h"

namespace radixrt {

const AttentionKernel *attention_kernel_avx512() {
    static constexpr AttentionKernel kernel{"avx512", run_span, merge_partial, finish_total};
    return &kernel;
}

}  // namespace radixrt

#else
#include "attention_kernel.h"

namespace radixrt {

const AttentionKernel *attention_kernel_avx512() { return nullptr; }

}  // namespace radixrt

#endif
