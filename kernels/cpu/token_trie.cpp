// Building the tries of a vocabulary; see token_trie.h.

#include "token_trie.h"

#include <algorithm>

namespace radixrt {

namespace {

// Where a plain text stands: between characters, dead, or in a character that needs more bytes.
enum Place : uint8_t { BETWEEN, OUTSIDE, ONE, TWO, THREE, AFTER_E0, AFTER_ED, AFTER_F0, AFTER_F4 };

Place next(Place place, int byte) {
    const bool tail = byte >= 0x80 && byte <= 0xBF;
    switch (place) {
        case BETWEEN:
            if (byte < 0x80) return byte >= 0x20 && byte != '"' && byte != '\\' ? BETWEEN : OUTSIDE;
            if (byte < 0xC2 || byte > 0xF4) return OUTSIDE;
            if (byte < 0xE0) return ONE;
            if (byte < 0xF0) return byte == 0xE0 ? AFTER_E0 : byte == 0xED ? AFTER_ED : TWO;
            return byte == 0xF0 ? AFTER_F0 : byte == 0xF4 ? AFTER_F4 : THREE;
        case ONE: return tail ? BETWEEN : OUTSIDE;
        case TWO: return tail ? ONE : OUTSIDE;
        case THREE: return tail ? TWO : OUTSIDE;
        case AFTER_E0: return byte >= 0xA0 && byte <= 0xBF ? ONE : OUTSIDE;
        case AFTER_ED: return byte >= 0x80 && byte <= 0x9F ? ONE : OUTSIDE;
        case AFTER_F0: return byte >= 0x90 && byte <= 0xBF ? TWO : OUTSIDE;
        case AFTER_F4: return byte >= 0x80 && byte <= 0x8F ? TWO : OUTSIDE;
        default: return OUTSIDE;
    }
}

// Fills in the heights, from the leaves up, and lists the roots.
void measure(Trie &trie) {
    for (int32_t node = 0; node < trie.count(); node = trie.nodes[node].end)
        trie.roots.push_back({node, trie.nodes[node].byte});
    for (int32_t node = trie.count() - 1; node >= 0; --node) {
        TrieNode &here = trie.nodes[node];
        for (int32_t child = node + 1; child < here.end; child = trie.nodes[child].end)
            here.height = std::max<int32_t>(here.height, trie.nodes[child].height + 1);
        trie.height = std::max<int32_t>(trie.height, here.height + 1);
    }
}

}  // namespace

TokenTries::TokenTries(const uint8_t *bytes, const int32_t *depth, const int32_t *subtree_end,
                       const int32_t *token_start, const int32_t *token_order, int32_t nodes, int32_t words_)
    : words(words_) {
    all.order.assign(token_order, token_order + token_start[nodes]);
    all.nodes.reserve(nodes + 1);
    std::vector<uint8_t> is_plain(nodes);
    std::vector<Place> places(1, BETWEEN);  // by depth
    for (int32_t node = 0; node < nodes; ++node) {
        all.nodes.push_back({subtree_end[node], token_start[node], static_cast<uint16_t>(depth[node]), 0, bytes[node]});
        places.resize(depth[node] + 1);
        places.push_back(next(places[depth[node]], bytes[node]));
        is_plain[node] = places.back() != OUTSIDE;
    }
    all.nodes.push_back({nodes, token_start[nodes], 0, 0, 0});
    measure(all);
    split(is_plain);
}

void TokenTries::split(const std::vector<uint8_t> &is_plain) {
    const int32_t count = all.count();
    std::vector<uint8_t> leads_to_plain(count, 0), leads_to_others(count, 0);
    for (int32_t node = count - 1; node >= 0; --node) {
        const bool has_tokens = all.nodes[node].tokens < all.nodes[node + 1].tokens;
        leads_to_plain[node] |= has_tokens && is_plain[node];
        leads_to_others[node] |= has_tokens && !is_plain[node];
        for (int32_t child = node + 1; child < all.nodes[node].end; child = all.nodes[child].end) {
            leads_to_plain[node] |= leads_to_plain[child];
            leads_to_others[node] |= leads_to_others[child];
        }
    }
    plain = chosen(leads_to_plain, is_plain, true);
    others = chosen(leads_to_others, is_plain, false);
    plain_tokens.assign(words, 0);
    add_tokens(plain, 0, static_cast<int32_t>(plain.order.size()), plain_tokens.data());
}

// The nodes to keep, with the tokens of those that are plain or not, as wanted.
Trie TokenTries::chosen(const std::vector<uint8_t> &kept, const std::vector<uint8_t> &is_plain, bool want) const {
    Trie result;
    result.nodes.reserve(std::count(kept.begin(), kept.end(), 1) + 1);
    std::vector<int32_t> open;  // ancestors of the next node, in the result
    for (int32_t node = 0; node < all.count(); ++node) {
        if (!kept[node]) continue;
        const TrieNode &here = all.nodes[node];
        const int32_t made = static_cast<int32_t>(result.nodes.size());
        for (; static_cast<int32_t>(open.size()) > here.depth; open.pop_back()) result.nodes[open.back()].end = made;
        open.push_back(made);
        result.nodes.push_back({0, static_cast<int32_t>(result.order.size()), here.depth, 0, here.byte});
        if ((is_plain[node] != 0) == want)
            result.order.insert(result.order.end(), all.order.begin() + here.tokens,
                                all.order.begin() + all.nodes[node + 1].tokens);
    }
    const int32_t count = static_cast<int32_t>(result.nodes.size());
    for (const int32_t node : open) result.nodes[node].end = count;
    result.nodes.push_back({count, static_cast<int32_t>(result.order.size()), 0, 0, 0});
    measure(result);
    return result;
}

}  // namespace radixrt
