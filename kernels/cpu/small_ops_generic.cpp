// The small operations for any processor; see small_ops_rows.h.

#include "small_ops_rows.h"

namespace radixrt {

const SmallOps *small_ops_generic() { return &kRows; }

}  // namespace radixrt
