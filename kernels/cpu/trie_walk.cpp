// Walks a token trie along a byte automaton and sets the bit of every token the automaton accepts.
//
// The trie is stored in depth-first order; node n has the byte bytes[n], depth[n] bytes before it, its subtree ends
// before node subtree_end[n], and the tokens that end there are token_order[token_start[n] .. token_start[n + 1]).
// The automaton is a table of states x byte classes; a negative entry is dead (-1) or not known yet (-2). On the
// latter the walk stops, says which state is missing, and can be resumed at the same node once the row is filled.
//
// Plain C ABI: no Python, no exceptions, no allocation. The caller owns all memory and checks all sizes.
// What it does not know: what the states mean.

#include <cstdint>

extern "C" {

struct radixrt_walk {
    const uint8_t *bytes;
    const int32_t *depth;
    const int32_t *subtree_end;
    const int32_t *token_start;
    const int32_t *token_order;
    const int32_t *table;     // states x classes
    const uint8_t *class_of;  // 256
    int32_t *states;          // stack: states[d] is the state before a byte at depth d
    uint32_t *row;            // bit mask to add to
    int64_t visited;          // nodes looked at so far
    int32_t classes;
    int32_t node;             // in: where to go on, out: where it stopped
    int32_t end;              // first node after the part to walk
    int32_t missing;          // out: the state whose row is unknown, or -1 when the walk is complete
};

// The version of this interface; the Python side refuses any other.
int32_t radixrt_trie_walk_abi(void) { return 1; }

// Runs every walk until it is complete or meets an unknown row. Returns how many are not complete.
int32_t radixrt_trie_walk(radixrt_walk *walks, int32_t count) {
    int32_t unfinished = 0;
    for (int32_t w = 0; w < count; ++w) {
        radixrt_walk &walk = walks[w];
        const uint8_t *bytes = walk.bytes;
        const int32_t *depth = walk.depth;
        const int32_t *table = walk.table;
        int32_t *states = walk.states;
        const int32_t first = walk.node;
        const int32_t end = walk.end;
        int64_t skipped = 0;
        int32_t node = first;
        walk.missing = -1;
        while (node < end) {
            const int32_t d = depth[node];
            const int32_t target = table[(int64_t)states[d] * walk.classes + walk.class_of[bytes[node]]];
            if (target < 0) {
                if (target == -2) {
                    walk.missing = states[d];
                    break;
                }
                const int32_t next = walk.subtree_end[node];
                skipped += next - node - 1;
                node = next;
                continue;
            }
            states[d + 1] = target;
            const int32_t last = walk.token_start[node + 1];
            for (int32_t t = walk.token_start[node]; t < last; ++t) {
                const uint32_t token = (uint32_t)walk.token_order[t];
                walk.row[token >> 5] |= (uint32_t)1 << (token & 31);
            }
            ++node;
        }
        walk.visited += (node - first) - skipped;
        walk.node = node;
        unfinished += walk.missing >= 0;
    }
    return unfinished;
}

}  // extern "C"
