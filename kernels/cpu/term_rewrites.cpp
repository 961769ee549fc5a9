// Terms made out of whole terms, part by part: spelled otherwise, cut short, without what reads nothing.

#include <algorithm>

#include "term_pool.h"

namespace radixrt {

namespace {

// Results for some terms, which are given in ascending order.
class Results {
  public:
    explicit Results(const std::vector<Term> &order) : order_(order), values_(order.size(), NONE) {}
    void set(size_t position, Term value) { values_[position] = value; }
    Term operator[](Term term) const {
        return values_[static_cast<size_t>(std::lower_bound(order_.begin(), order_.end(), term) - order_.begin())];
    }

  private:
    const std::vector<Term> &order_;
    std::vector<Term> values_;
};

}  // namespace

// --- what reads nothing ---

bool Pool::opens(Term x) const {
    const Kind k = kind(x);
    return (k == Kind::CONCAT || k == Kind::ALT || k == Kind::REPEAT) && (sensitive(x) || shortest(x) == 0);
}

// The factors of a CONCAT, the members of an ALT, what a REPEAT repeats.
void Pool::factors(Term term, TermList &out) const {
    out.clear();
    if (!is(term, Kind::CONCAT)) {
        out.append(children(term).data, children(term).count);
        return;
    }
    for (; is(term, Kind::CONCAT); term = tail(term)) out.push_back(head(term));
    out.push_back(term);
}

// The parts, down to factors that do not open, which `zero_width` and `consuming` of a term ask for; ascending.
std::vector<Term> Pool::opened(Term term) {
    std::vector<Term> order{term}, stack{term};
    TermList parts;
    next_round();
    first_visit(term);
    while (!stack.empty()) {
        const Term x = stack.back();
        stack.pop_back();
        spend(1);
        if (!opens(x)) continue;
        factors(x, parts);
        spend(static_cast<int64_t>(parts.size()));
        for (const Term y : parts)
            if (first_visit(y)) {
                order.push_back(y);
                stack.push_back(y);
            }
    }
    std::sort(order.begin(), order.end());
    return order;
}

Term Pool::zero_width(Term term) {
    if (!sensitive(term)) return null(term) ? EMPTY : NONE;
    const std::vector<Term> order = opened(term);
    Results zero(order);
    TermList parts;
    for (size_t i = 0; i < order.size(); ++i) {
        const Term x = order[i];
        Term result = x;
        if (!sensitive(x)) {
            result = null(x) ? EMPTY : NONE;
        } else if (opens(x)) {
            factors(x, parts);
            for (Term &y : parts) y = zero[y];
            if (is(x, Kind::CONCAT)) result = concat(parts.data(), parts.size());
            if (is(x, Kind::ALT)) result = alt(parts.data(), parts.size());
            if (is(x, Kind::REPEAT)) result = low_count(x) == 0 ? EMPTY : parts[0];
        }
        zero.set(i, result);
    }
    return zero[term];
}

Term Pool::consuming(Term term) {
    const std::vector<Term> order = opened(term);
    Results result(order);
    TermList parts, options;
    for (size_t i = 0; i < order.size(); ++i) {
        const Term x = order[i];
        if (shortest(x) > 0) {
            result.set(i, x);
        } else if (x == NONE || x == EMPTY || is(x, Kind::AHEAD) || is(x, Kind::BEHIND)) {
            result.set(i, NONE);
        } else if (is(x, Kind::ALT)) {
            factors(x, parts);
            for (Term &y : parts) y = result[y];
            result.set(i, alt(parts.data(), parts.size()));
        } else if (is(x, Kind::REPEAT) && low_count(x) == 0) {
            const Term first = head(x), rest = one_round_less(x);
            result.set(i, concat(result[first], rest));
        } else if (is(x, Kind::CONCAT)) {
            // Some factor is the first that reads; those before it only add conditions.
            options.clear();
            Term before = EMPTY, rest = x;
            while (before != NONE && rest != EMPTY) {
                const bool longer = is(rest, Kind::CONCAT);
                const Term first = longer ? head(rest) : rest;
                rest = longer ? tail(rest) : EMPTY;
                const Term option[3] = {before, result[first], rest};
                options.push_back(concat(option, 3));
                if (rest != EMPTY) before = concat(before, zero_width(first));
            }
            result.set(i, alt(options.data(), options.size()));
        } else {
            result.set(i, zero_width(x) == NONE ? x : both(x, complement(EMPTY)));
        }
    }
    return result[term];
}

Term Pool::before_end(Term term, Term rest) {
    TermList spine;
    for (; is(term, Kind::CONCAT) && sensitive(term); term = tail(term)) spine.push_back(head(term));
    spine.push_back(term);
    spend(static_cast<int64_t>(spine.size()));
    for (size_t i = spine.size(); i-- > 0;)
        rest = is(spine[i], Kind::AHEAD) ? both(head(spine[i]), rest) : concat(spine[i], rest);
    return rest;
}

// --- other spellings ---

Term Pool::substitute(Term term, const Term *images) {
    const Term valid = star(alt(images, 256));
    std::vector<Term> order;
    const auto fixed = [&](Term x) { return x == NONE || x == EMPTY || x == all; };
    collect(term, [](Term) { return true; }, [&](Term x) { return !fixed(x); }, order);
    Results image(order);
    TermList parts;
    for (size_t i = 0; i < order.size(); ++i) {
        const Term x = order[i];
        parts.clear();
        for (const Term y : children(x)) parts.push_back(image[y]);
        image.set(i, fixed(x) ? (x == all ? valid : x) : image_of(x, parts, images, valid));
    }
    return image[term];
}

// The image of a term, given those of its parts.
Term Pool::image_of(Term x, const TermList &parts, const Term *images, Term valid) {
    switch (kind(x)) {
        case Kind::SET: {
            ByteSet plain_;
            TermList options;
            const ByteSet set = set_of(x);
            for (int byte = 0; byte < 256; ++byte) {
                if (!set.has(byte)) continue;
                if (is(images[byte], Kind::SET))
                    plain_ |= set_of(images[byte]);
                else
                    options.push_back(images[byte]);
            }
            options.push_back(byte_set(plain_));
            return alt(options.data(), options.size());
        }
        case Kind::CONCAT: return concat(parts[0], parts[1]);
        case Kind::ALT: return alt(parts.data(), parts.size());
        case Kind::AND: return both(parts.data(), parts.size());
        case Kind::NOT: return both(valid, complement(parts[0]));
        case Kind::REPEAT: return repeat(parts[0], low_count(x), high_count(x));
        case Kind::AHEAD: return ahead(parts[0]);
        case Kind::CLOSED: return closed(parts[0], parts.data() + 1, parts.size() - 1);
        default: return x;
    }
}

// --- cut short ---

Term Pool::clamped(Term term, int32_t depth) {
    if (depth != clamp_depth_) clamped_.clear();
    clamp_depth_ = depth;
    const auto is_new = [&](Term x) { return static_cast<size_t>(x) >= clamped_.size() || clamped_[x] < 0; };
    if (!is_new(term)) return clamped_[term];
    // Not inside intersections, complements and closed terms: there a count may decide far ahead whether anything can
    // follow at all.
    const auto enters = [&](Term x) { return is(x, Kind::CONCAT) || is(x, Kind::ALT) || is(x, Kind::REPEAT); };
    std::vector<Term> order;
    collect(term, is_new, enters, order);
    clamped_.resize(nodes_.size(), -1);
    TermList parts;
    for (const Term x : order) {
        parts.clear();
        Term result = x;
        if (enters(x))
            for (const Term y : children(x)) parts.push_back(clamped_[y]);
        if (is(x, Kind::CONCAT)) result = concat(parts[0], parts[1]);
        if (is(x, Kind::ALT)) result = alt(parts.data(), parts.size());
        if (is(x, Kind::REPEAT)) {
            const int64_t high = high_count(x) <= depth ? high_count(x) : INFINITE;  // never used up in depth bytes
            result = repeated(parts[0], std::min<int64_t>(low_count(x), depth + int64_t{1}), high);
        }
        clamped_[x] = result;
    }
    return clamped_[term];
}

}  // namespace radixrt
