// The small operations for AVX2; see small_ops_rows.h. Without the instruction set's flags it compiles to nothing.

#if defined(__AVX2__)
#define RADIXRT_SIMD_AVX2
#include "small_ops_rows.h"

namespace radixrt {

const SmallOps *small_ops_avx2() { return &kRows; }

}  // namespace radixrt

#else
#include "small_ops_table.h"

namespace radixrt {

const SmallOps *small_ops_avx2() { return nullptr; }

}  // namespace radixrt

#endif
