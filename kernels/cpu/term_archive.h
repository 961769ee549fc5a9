// Terms as a list of numbers that another pool can read: what is kept of a compiled grammar beyond its process.
//
// A record is a kind, the number of its words and the words, in the machine's byte order; records refer to terms by
// number, those before them only: 0 and 1 are NONE and EMPTY, 2 is the first record. SET has the 8 words of its bytes,
// REPEAT a term and its counts as 64-bit integers, BEHIND an index and yes or no, all others their parts.
//
// What is read is checked, and every term made anew by the constructors of the pool: whatever the numbers are, the
// pool stays whole. What it does not know: rules, files.
#ifndef RADIXRT_TERM_ARCHIVE_H
#define RADIXRT_TERM_ARCHIVE_H

#include <cstdint>
#include <vector>

#include "term_pool.h"

namespace radixrt {

// Appends the records of `terms` and of all they are made of to `words`, and the number of each of `terms` to
// `numbers`.
void archive_terms(Pool &pool, const Term *terms, size_t count, std::vector<int32_t> &words,
                   std::vector<int32_t> &numbers);

// The terms by number. Throws `Refusal` (ARGUMENT) for what is no list of records.
std::vector<Term> restore_terms(Pool &pool, const int32_t *words, size_t count);

}  // namespace radixrt

#endif
