// The tokens of a vocabulary as a trie over their bytes, in depth-first order, and the same split in two: the tokens
// that may stand inside a JSON string as they are (*plain*: printable UTF-8 without quote and backslash, possibly cut
// off inside its last character), and all the others. Most of a vocabulary is plain, and most states treat all plain
// tokens alike. Immutable once made, so threads share it. What it does not know: automata.
#ifndef RADIXRT_TOKEN_TRIE_H
#define RADIXRT_TOKEN_TRIE_H

#include <cstdint>
#include <vector>

namespace radixrt {

struct TrieNode {
    int32_t end;      // the node after its subtree
    int32_t tokens;   // where its tokens begin in `order`; those of its subtree follow
    uint16_t depth;   // bytes before it
    uint16_t height;  // bytes of the longest way down from it
    uint8_t byte;
};
static_assert(sizeof(TrieNode) == 16, "a vocabulary has millions of nodes");

struct TrieRoot {
    int32_t node;
    uint8_t byte;
};

struct Trie {
    std::vector<TrieNode> nodes;  // and one more, the end of all
    std::vector<TrieRoot> roots;  // the nodes of depth 0, close together: every walk looks at all of them
    std::vector<int32_t> order;   // token ids
    int32_t height = 0;           // bytes of the longest token

    int32_t count() const { return static_cast<int32_t>(nodes.size()) - 1; }
    // Root of everything: -1.
    int32_t end(int32_t node) const { return node < 0 ? count() : nodes[node].end; }
    int32_t first_token(int32_t node) const { return node < 0 ? 0 : nodes[node].tokens; }
    int32_t first_token_after(int32_t node) const { return nodes[end(node)].tokens; }
};

// Adds the tokens order[first .. last) to a bit mask, or takes them out.
inline void add_tokens(const Trie &trie, int32_t first, int32_t last, uint32_t *row) {
    for (int32_t i = first; i < last; ++i) {
        const uint32_t token = static_cast<uint32_t>(trie.order[i]);
        row[token >> 5] |= uint32_t{1} << (token & 31);
    }
}
inline void drop_tokens(const Trie &trie, int32_t first, int32_t last, uint32_t *row) {
    for (int32_t i = first; i < last; ++i) {
        const uint32_t token = static_cast<uint32_t>(trie.order[i]);
        row[token >> 5] &= ~(uint32_t{1} << (token & 31));
    }
}

class TokenTries {
  public:
    // Copies the arrays, which are those of trie_walk.py; tokens have at most 65,536 bytes there.
    TokenTries(const uint8_t *bytes, const int32_t *depth, const int32_t *subtree_end, const int32_t *token_start,
               const int32_t *token_order, int32_t nodes, int32_t words);

    Trie all, plain, others;
    std::vector<uint32_t> plain_tokens;  // bit mask
    int32_t words;                       // of a bit mask

  private:
    void split(const std::vector<uint8_t> &is_plain);
    Trie chosen(const std::vector<uint8_t> &kept, const std::vector<uint8_t> &is_plain, bool want) const;
};

}  // namespace radixrt

#endif
