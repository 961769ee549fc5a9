// The plain C interface of the term pool; kernels/cpu/terms.py is its other side.
//
// A pool is an opaque pointer. Functions that give a term, a count or a truth give it as a number of at least 0, and
// minus a Refusal::Code where they refuse. Terms are checked here, sizes by the caller.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "term_archive.h"
#include "term_pool.h"

using radixrt::Arc;
using radixrt::ByteSet;
using radixrt::Pool;
using radixrt::Refusal;
using radixrt::Term;

namespace {

constexpr int64_t CALL = 8;  // fuel for crossing over from Python, whatever the pool then does

Pool &pool_of(void *handle) { return *static_cast<Pool *>(handle); }

template <class Work>
auto guarded(Work work) -> decltype(work()) {
    try {
        return work();
    } catch (const Refusal &refusal) {
        return -refusal.code;
    } catch (const std::bad_alloc &) {
        return -Refusal::MEMORY;
    }
}

void check(const Pool &pool, Term term) {
    if (!pool.knows(term)) throw Refusal{Refusal::ARGUMENT};
}

void check(const Pool &pool, const Term *terms, int64_t count) {
    for (int64_t i = 0; i < count; ++i) check(pool, terms[i]);
}

// Calls `work(pool)` once the terms are known to be terms of the pool.
template <class Work>
int32_t with_terms(void *handle, Term a, Term b, Work work) {
    return guarded([&]() -> int32_t {
        Pool &pool = pool_of(handle);
        check(pool, a);
        check(pool, b);
        pool.spend(CALL);
        return static_cast<int32_t>(work(pool));
    });
}

template <class Work>
int32_t with_term(void *handle, Term term, Work work) {
    return with_terms(handle, term, radixrt::NONE, work);
}

template <class Work>
int32_t with_list(void *handle, const Term *terms, int64_t count, Work work) {
    return guarded([&]() -> int32_t {
        Pool &pool = pool_of(handle);
        check(pool, terms, count);
        pool.spend(CALL);
        return static_cast<int32_t>(work(pool));
    });
}

ByteSet from_bytes(const uint8_t *mask) {
    ByteSet set;
    for (int i = 0; i < 32; ++i) set.w[i / 8] |= static_cast<uint64_t>(mask[i]) << 8 * (i % 8);
    return set;
}

void to_bytes(const ByteSet &set, uint8_t *mask) {
    for (int i = 0; i < 32; ++i) mask[i] = static_cast<uint8_t>(set.w[i / 8] >> 8 * (i % 8));
}

}  // namespace

extern "C" {

// The version of this interface; the Python side refuses any other.
int32_t radixrt_pool_abi(void) { return 3; }

// Null if there is no memory.
void *radixrt_pool_new(int64_t fuel, int32_t max_terms) {
    try {
        return new Pool(fuel, max_terms);
    } catch (...) {
        return nullptr;
    }
}

void *radixrt_pool_copy(void *handle, int32_t count) {
    try {
        const Pool &pool = pool_of(handle);
        return count < 2 || count > pool.size() ? nullptr : new Pool(pool, count);
    } catch (...) {
        return nullptr;
    }
}

void radixrt_pool_free(void *handle) { delete static_cast<Pool *>(handle); }

int32_t radixrt_pool_size(void *handle) { return pool_of(handle).size(); }
int64_t radixrt_pool_nbytes(void *handle) { return pool_of(handle).nbytes(); }
int64_t radixrt_pool_fuel(void *handle) { return pool_of(handle).fuel; }
void radixrt_pool_refill(void *handle, int64_t amount) { pool_of(handle).refill(amount); }
int32_t radixrt_pool_spend(void *handle, int64_t amount) {
    return guarded([&]() -> int32_t { return pool_of(handle).spend(amount), 0; });
}
Term radixrt_pool_any_byte(void *handle) { return pool_of(handle).any_byte; }
Term radixrt_pool_all(void *handle) { return pool_of(handle).all; }

// --- constructors ---

Term radixrt_pool_byte_set(void *handle, const uint8_t *mask) {
    return guarded([&]() -> int32_t { return pool_of(handle).byte_set(from_bytes(mask)); });
}
// Writes the terms of the 256 single bytes.
int32_t radixrt_pool_each_byte(void *handle, Term *out) {
    return guarded([&]() -> int32_t {
        for (int byte = 0; byte < 256; ++byte) out[byte] = pool_of(handle).byte_set(ByteSet::single(byte));
        return 0;
    });
}
Term radixrt_pool_literal(void *handle, const uint8_t *data, int64_t size) {
    return guarded([&]() -> int32_t { return pool_of(handle).literal(data, static_cast<size_t>(size)); });
}
Term radixrt_pool_chars(void *handle, const int32_t *ranges, int64_t pairs) {
    return guarded([&]() -> int32_t { return pool_of(handle).chars(ranges, static_cast<size_t>(pairs)); });
}
Term radixrt_pool_one_of(void *handle, const uint8_t *data, const int64_t *starts, int64_t strings) {
    return guarded(
        [&]() -> int32_t { return pool_of(handle).one_of(data, starts, static_cast<size_t>(strings)); });
}
Term radixrt_pool_concat2(void *handle, Term a, Term b) {
    return with_terms(handle, a, b, [&](Pool &pool) { return pool.concat(a, b); });
}
Term radixrt_pool_alt2(void *handle, Term a, Term b) {
    return with_terms(handle, a, b, [&](Pool &pool) { return pool.alt(a, b); });
}
Term radixrt_pool_and2(void *handle, Term a, Term b) {
    return with_terms(handle, a, b, [&](Pool &pool) { return pool.both(a, b); });
}
Term radixrt_pool_concat(void *handle, const Term *terms, int64_t count) {
    return with_list(handle, terms, count, [&](Pool &p) { return p.concat(terms, static_cast<size_t>(count)); });
}
Term radixrt_pool_alt(void *handle, const Term *terms, int64_t count) {
    return with_list(handle, terms, count, [&](Pool &p) { return p.alt(terms, static_cast<size_t>(count)); });
}
Term radixrt_pool_and(void *handle, const Term *terms, int64_t count) {
    return with_list(handle, terms, count, [&](Pool &p) { return p.both(terms, static_cast<size_t>(count)); });
}
Term radixrt_pool_not(void *handle, Term term) {
    return with_term(handle, term, [&](Pool &pool) { return pool.complement(term); });
}
Term radixrt_pool_repeat(void *handle, Term term, int64_t low, int64_t high) {
    return with_term(handle, term, [&](Pool &pool) { return pool.repeat(term, low, high); });
}
Term radixrt_pool_ahead(void *handle, Term rest) {
    return with_term(handle, rest, [&](Pool &pool) { return pool.ahead(rest); });
}
Term radixrt_pool_behind(void *handle, int32_t index, int32_t yes) {
    return guarded([&]() -> int32_t { return pool_of(handle).behind(index, yes != 0); });
}
Term radixrt_pool_closed(void *handle, Term term, const Term *watched, int64_t count) {
    return with_list(handle, watched, count, [&](Pool &pool) {
        check(pool, term);
        return pool.closed(term, watched, static_cast<size_t>(count));
    });
}
Term radixrt_pool_before_end(void *handle, Term term, Term rest) {
    return with_terms(handle, term, rest, [&](Pool &pool) { return pool.before_end(term, rest); });
}
Term radixrt_pool_zero_width(void *handle, Term term) {
    return with_term(handle, term, [&](Pool &pool) { return pool.zero_width(term); });
}
Term radixrt_pool_consuming(void *handle, Term term) {
    return with_term(handle, term, [&](Pool &pool) { return pool.consuming(term); });
}
Term radixrt_pool_substitute(void *handle, Term term, const Term *images) {
    return with_list(handle, images, 256, [&](Pool &pool) {
        check(pool, term);
        return pool.substitute(term, images);
    });
}
Term radixrt_pool_clamped(void *handle, Term term, int32_t depth) {
    return with_term(handle, term, [&](Pool &pool) { return pool.clamped(term, depth); });
}

// --- questions ---

int32_t radixrt_pool_nullable(void *handle, Term term, uint64_t flags) {
    return with_term(handle, term, [&](Pool &pool) { return pool.nullable(term, flags); });
}
int32_t radixrt_pool_sensitive(void *handle, Term term) {
    return with_term(handle, term, [&](Pool &pool) { return pool.sensitive(term); });
}
int64_t radixrt_pool_shortest(void *handle, Term term) {
    const Pool &pool = pool_of(handle);
    return pool.knows(term) ? pool.shortest(term) : -Refusal::ARGUMENT;
}
int64_t radixrt_pool_longest(void *handle, Term term) {
    const Pool &pool = pool_of(handle);
    return pool.knows(term) ? pool.longest(term) : -Refusal::ARGUMENT;
}
// Writes 36 bytes an arc for at most 256 of them: the set, and the term in the machine's byte order.
int32_t radixrt_pool_arcs(void *handle, Term term, uint64_t flags, uint8_t *out) {
    return with_term(handle, term, [&](Pool &pool) {
        const radixrt::Arcs arcs = pool.arcs(term, flags);
        for (const Arc &arc : arcs) {
            to_bytes(arc.bytes, out);
            std::memcpy(out + 32, &arc.rest, sizeof arc.rest);
            out += 36;
        }
        return arcs.size();
    });
}
int32_t radixrt_pool_matches(void *handle, Term term, const uint8_t *data, int64_t size) {
    return with_term(handle, term, [&](Pool &p) { return p.matches(term, data, static_cast<size_t>(size)); });
}
int32_t radixrt_pool_is_empty(void *handle, Term term) {
    return with_term(handle, term, [&](Pool &pool) { return pool.is_empty(term); });
}
// Whether it is shown to be empty with `amount` of the fuel; no if that does not suffice.
int32_t radixrt_pool_proved_empty(void *handle, Term term, int64_t amount) {
    return with_term(handle, term, [&](Pool &pool) {
        const int64_t reserve = pool.fuel > amount ? pool.fuel - amount : 0;
        pool.fuel -= reserve;
        bool empty = false;
        try {
            empty = pool.is_empty(term);
        } catch (const Refusal &refusal) {
            if (refusal.code != Refusal::FUEL || !reserve) {
                pool.fuel += reserve;
                throw;
            }
            pool.fuel = 0;
        }
        pool.fuel += reserve;
        return empty;
    });
}
int32_t radixrt_pool_first_bytes(void *handle, Term term) {
    return with_term(handle, term, [&](Pool &pool) { return pool.first_bytes(term); });
}
// Writes 16 bytes.
int32_t radixrt_pool_fingerprint(void *handle, Term term, uint8_t *out) {
    return with_term(handle, term, [&](Pool &pool) {
        const radixrt::Fingerprint print = pool.fingerprint(term);
        std::memcpy(out, &print, sizeof print);
        return 0;
    });
}
// Writes at most 256 sets of 32 bytes; returns how many.
int32_t radixrt_pool_byte_classes(void *handle, const Term *terms, int64_t count, uint8_t *out) {
    return with_list(handle, terms, count, [&](Pool &pool) {
        const std::vector<ByteSet> blocks = pool.byte_classes(terms, static_cast<size_t>(count));
        for (const ByteSet &block : blocks) {
            to_bytes(block, out);
            out += 32;
        }
        return blocks.size();
    });
}

// --- archives ---

// Writes the records of some terms, at most `room` words, and their numbers; returns how many words there are.
int64_t radixrt_pool_archive(void *handle, const Term *terms, int64_t count, int32_t *out, int64_t room,
                             int32_t *numbers) {
    return guarded([&]() -> int64_t {
        Pool &pool = pool_of(handle);
        check(pool, terms, count);
        std::vector<int32_t> words, found;
        radixrt::archive_terms(pool, terms, static_cast<size_t>(count), words, found);
        std::copy_n(words.begin(), std::min<int64_t>(room, static_cast<int64_t>(words.size())), out);
        std::copy(found.begin(), found.end(), numbers);
        return static_cast<int64_t>(words.size());
    });
}
// Reads such records. Writes the terms by number, into room for `count / 3 + 2` of them, as many as there can be; returns
// how many there are.
int32_t radixrt_pool_restore(void *handle, const int32_t *words, int64_t count, Term *out) {
    return guarded([&]() -> int32_t {
        const std::vector<Term> terms = radixrt::restore_terms(pool_of(handle), words, static_cast<size_t>(count));
        std::copy(terms.begin(), terms.end(), out);
        return static_cast<int32_t>(terms.size());
    });
}

}  // extern "C"
