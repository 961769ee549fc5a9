// Attention for any processor; see attention_span.h.

#include "attention_span.h"

namespace radixrt {

const AttentionKernel *attention_kernel_generic() {
    static constexpr AttentionKernel kernel{"generic", run_span, merge_partial, finish_total};
    return &kernel;
}

}  // namespace radixrt
