// The small operations for AVX-512; see small_ops_rows.h. Without the instruction set's flags it compiles to
// nothing.

#if defined(__AVX512F__)
#define RADIXRT_SIMD_AVX512
#include "small_ops_rows.h"

namespace radixrt {

const SmallOps *small_ops_avx512() { return &kRows; }

}  // namespace radixrt

#else
#include "small_ops_table.h"

namespace radixrt {

const SmallOps *small_ops_avx512() { return nullptr; }

}  // namespace radixrt

#endif
