// Writing and reading terms; see term_archive.h.

#include "term_archive.h"

#include <algorithm>
#include <cstring>

namespace radixrt {

namespace {

constexpr int32_t FIRST_RECORD = 2;

// The terms and all they are made of, ascending, so that parts come before what is made of them.
std::vector<Term> with_parts(Pool &pool, const Term *terms, size_t count) {
    std::vector<Term> found;
    std::vector<uint8_t> seen(static_cast<size_t>(pool.size()), 0);
    seen[NONE] = seen[EMPTY] = 1;
    const auto visit = [&](Term term) {
        if (seen[term]) return;
        seen[term] = 1;
        found.push_back(term);
    };
    std::for_each(terms, terms + count, visit);
    for (size_t i = 0; i < found.size(); ++i)
        for (const Term part : pool.children(found[i])) visit(part);
    pool.spend(static_cast<int64_t>(found.size()));
    std::sort(found.begin(), found.end());
    return found;
}

void append_long(std::vector<int32_t> &words, int64_t value) {
    int32_t halves[2];
    std::memcpy(halves, &value, sizeof value);
    words.insert(words.end(), halves, halves + 2);
}

int64_t long_of(const int32_t *words) {
    int64_t value;
    std::memcpy(&value, words, sizeof value);
    return value;
}

void append_record(const Pool &pool, Term term, const std::vector<int32_t> &number_of, std::vector<int32_t> &words) {
    const size_t begin = words.size();
    words.push_back(static_cast<int32_t>(pool.kind(term)));
    words.push_back(0);
    for (const Term part : pool.children(term)) words.push_back(number_of[part]);
    switch (pool.kind(term)) {
        case Kind::SET: {
            const ByteSet bytes = pool.set_of(term);
            for (const uint64_t word : bytes.w) append_long(words, static_cast<int64_t>(word));
            break;
        }
        case Kind::REPEAT:
            append_long(words, pool.low_count(term));
            append_long(words, pool.high_count(term));
            break;
        case Kind::BEHIND:
            words.push_back(pool.watched_index(term));
            words.push_back(pool.watched_yes(term));
            break;
        default: break;
    }
    words[begin + 1] = static_cast<int32_t>(words.size() - begin - 2);
}

struct Record {
    int32_t kind;
    const int32_t *words;
    size_t count;
};

// How many words of a record are numbers of terms; throws for a record that cannot be.
size_t parts_of(const Record &record) {
    const auto exactly = [&](size_t words, size_t parts) {
        if (record.count != words) throw Refusal{Refusal::ARGUMENT};
        return parts;
    };
    switch (static_cast<Kind>(record.kind)) {
        case Kind::SET: return exactly(8, 0);
        case Kind::CONCAT: return exactly(2, 2);
        case Kind::NOT:
        case Kind::AHEAD: return exactly(1, 1);
        case Kind::REPEAT: return exactly(5, 1);
        case Kind::BEHIND: return exactly(2, 0);
        case Kind::ALT:
        case Kind::AND:
        case Kind::CLOSED:
            if (record.count) return record.count;
            break;
        default: break;
    }
    throw Refusal{Refusal::ARGUMENT};
}

Term made(Pool &pool, const Record &record, const std::vector<Term> &parts) {
    switch (static_cast<Kind>(record.kind)) {
        case Kind::SET: {
            ByteSet bytes;
            for (int i = 0; i < 4; ++i) bytes.w[i] = static_cast<uint64_t>(long_of(record.words + 2 * i));
            return pool.byte_set(bytes);
        }
        case Kind::CONCAT: return pool.concat(parts[0], parts[1]);
        case Kind::ALT: return pool.alt(parts.data(), parts.size());
        case Kind::AND: return pool.both(parts.data(), parts.size());
        case Kind::NOT: return pool.complement(parts[0]);
        case Kind::REPEAT: return pool.repeat(parts[0], long_of(record.words + 1), long_of(record.words + 3));
        case Kind::AHEAD: return pool.ahead(parts[0]);
        case Kind::BEHIND: return pool.behind(record.words[0], record.words[1] != 0);
        case Kind::CLOSED: return pool.closed(parts[0], parts.data() + 1, parts.size() - 1);
        default: throw Refusal{Refusal::ARGUMENT};
    }
}

}  // namespace

void archive_terms(Pool &pool, const Term *terms, size_t count, std::vector<int32_t> &words,
                   std::vector<int32_t> &numbers) {
    const std::vector<Term> found = with_parts(pool, terms, count);
    std::vector<int32_t> number_of(static_cast<size_t>(pool.size()), 0);
    number_of[EMPTY] = EMPTY;
    int32_t next = FIRST_RECORD;
    for (const Term term : found) {
        append_record(pool, term, number_of, words);
        number_of[term] = next++;
    }
    for (size_t i = 0; i < count; ++i) numbers.push_back(number_of[terms[i]]);
}

std::vector<Term> restore_terms(Pool &pool, const int32_t *words, size_t count) {
    std::vector<Term> terms{NONE, EMPTY};
    std::vector<Term> parts;
    for (size_t at = 0; at < count;) {
        if (count - at < 2 || words[at + 1] < 0 || static_cast<size_t>(words[at + 1]) > count - at - 2)
            throw Refusal{Refusal::ARGUMENT};
        const Record record{words[at], words + at + 2, static_cast<size_t>(words[at + 1])};
        pool.spend(1 + static_cast<int64_t>(record.count));
        parts.clear();
        for (size_t i = 0, last = parts_of(record); i < last; ++i) {
            const int32_t part = record.words[i];
            if (part < 0 || static_cast<size_t>(part) >= terms.size()) throw Refusal{Refusal::ARGUMENT};
            parts.push_back(terms[part]);
        }
        terms.push_back(made(pool, record, parts));
        at += 2 + record.count;
    }
    return terms;
}

}  // namespace radixrt
