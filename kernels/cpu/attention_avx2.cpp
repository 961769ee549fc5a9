// Attention for AVX2; see attention_span.h. Without the instruction set's flags it compiles to nothing.

#if defined(__AVX2__)
#define RADIXRT_SIMD_AVX2
#include "attention_span.h"

namespace radixrt {

const AttentionKernel *attention_kernel_avx2() {
    static constexpr AttentionKernel kernel{"avx2", run_span, merge_partial, finish_total};
    return &kernel;
}

}  // namespace radixrt

#else
#include "attention_kernel.h"

namespace radixrt {

const AttentionKernel *attention_kernel_avx2() { return nullptr; }

}  // namespace radixrt

#endif
