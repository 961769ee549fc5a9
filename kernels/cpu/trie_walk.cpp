// Walks a token trie along a byte automaton and sets the bit of every token the automaton accepts.
//
// The trie is stored in depth-first order; node n has the byte bytes[n], depth[n] bytes before it, its subtree ends
// before node subtree_end[n], and the tokens that end there are token_order[token_start[n] .. token_start[n + 1]).
// The automaton is a table of states x byte classes; a negative entry is dead (-1) or not known yet (-2). On the
// latter the walk stops, says which state is missing, and can be resumed at the same node once the row is filled.
// A walk visits the subtrees below any number of nodes, each from its own state. It may be told to stop at accepting
// states: then it reports the nodes where they are reached instead of going below them.
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
    const int32_t *table;        // states x classes
    const uint8_t *class_of;     // 256
    const uint8_t *accepting;    // per state, or null: go on below accepting states
    const int32_t *start_nodes;  // subtrees to visit; -1 is the whole trie
    const int32_t *start_states;
    int32_t *states;        // stack: states[d] is the state before a byte at depth d
    uint32_t *row;          // bit mask to add to
    int32_t *found_nodes;   // out: inner nodes at which an accepting state was reached, and the state;
    int32_t *found_states;  //      room for one entry per node
    int64_t visited;        // nodes looked at so far
    int32_t nodes;
    int32_t classes;
    int32_t starts;   // how many subtrees
    int32_t start;    // in and out: the one it is in
    int32_t node;     // in and out: where to go on in it, or -1 at its beginning
    int32_t found;    // in and out: how many were found
    int32_t missing;  // out: the state whose row is unknown, or -1 when the walk is complete
};

// The version of this interface; the Python side refuses any other.
int32_t radixrt_trie_walk_abi(void) { return 3; }

static void walk_on(radixrt_walk &walk) {
    const uint8_t *bytes = walk.bytes;
    const int32_t *depth = walk.depth;
    int32_t *states = walk.states;
    walk.missing = -1;
    for (; walk.start < walk.starts; ++walk.start, walk.node = -1) {
        const int32_t root = walk.start_nodes[walk.start];
        const int32_t end = root < 0 ? walk.nodes : walk.subtree_end[root];
        int32_t node = walk.node;
        if (node < 0) {
            node = root + 1;
            states[root < 0 ? 0 : depth[root] + 1] = walk.start_states[walk.start];
        }
        while (node < end) {
            const int32_t d = depth[node];
            const int32_t target = walk.table[(int64_t)states[d] * walk.classes + walk.class_of[bytes[node]]];
            if (target == -2) {
                walk.missing = states[d];
                walk.node = node;
                return;
            }
            ++walk.visited;
            if (target < 0) {
                node = walk.subtree_end[node];
                continue;
            }
            states[d + 1] = target;
            const int32_t last = walk.token_start[node + 1];
            for (int32_t t = walk.token_start[node]; t < last; ++t) {
                const uint32_t token = (uint32_t)walk.token_order[t];
                walk.row[token >> 5] |= (uint32_t)1 << (token & 31);
            }
            if (walk.accepting && walk.accepting[target]) {
                const int32_t next = walk.subtree_end[node];
                if (next > node + 1) {
                    walk.found_nodes[walk.found] = node;
                    walk.found_states[walk.found] = target;
                    ++walk.found;
                }
                node = next;
                continue;
            }
            ++node;
        }
    }
}

// Runs every walk until it is complete or meets an unknown row. Returns how many are not complete.
int32_t radixrt_trie_walk(radixrt_walk **walks, int32_t count) {
    int32_t unfinished = 0;
    for (int32_t w = 0; w < count; ++w) {
        walk_on(*walks[w]);
        unfinished += walks[w]->missing >= 0;
    }
    return unfinished;
}

}  // extern "C"
