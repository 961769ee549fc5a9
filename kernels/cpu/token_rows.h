// Mask rows: which tokens a state of a machine allows.
//
// Most of a mask is decided inside the terminal that is being read: of fifty thousand tokens that may follow inside a
// string, only those with a quote in them leave it. So the row of a terminal that can go on in many ways is made once
// for all places where it occurs: the tokens that stay inside it, and its *exits*, the nodes of the token trie at which
// it can be complete. A token that leaves it at an exit goes on with what may follow at the place, which is one state.
// Terms are told apart by fingerprint, so grammars that were compiled apart share rows. Where nothing can follow a
// terminal, only its prefixes matter, and terms with the same prefixes share a row. Plain tokens (token_trie.h) are
// taken as a whole as far as a terminal can be seen to go on after any plain text.
//
// What it does not know: matchers, end tokens.
#ifndef RADIXRT_TOKEN_ROWS_H
#define RADIXRT_TOKEN_ROWS_H

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "grammar_machine.h"
#include "term_shapes.h"
#include "token_trie.h"

namespace radixrt {

struct TerminalRow {
    std::vector<uint32_t> bits;                     // the tokens that stay inside the terminal or end with it
    std::vector<int32_t> plain_exits, other_exits;  // inner nodes of the tries of plain and of other tokens
    bool leaves_everywhere = false;                 // there are so many exits that going below them is no gain

    int64_t nbytes() const;
};

// Rows of the terminals of one vocabulary, bounded in bytes, the least recently used go first. Thread-safe.
class SharedRows {
  public:
    struct Key {
        Fingerprint print;
        bool last;  // nothing can follow
        bool operator==(const Key &o) const { return print == o.print && last == o.last; }
    };

    explicit SharedRows(int64_t max_bytes) : max_bytes_(max_bytes) {}
    std::shared_ptr<const TerminalRow> get(const Key &key);
    void put(const Key &key, std::shared_ptr<const TerminalRow> row);
    int64_t nbytes();
    int64_t count();

  private:
    struct Entry {
        Key key;
        std::shared_ptr<const TerminalRow> row;
    };
    struct Hash {
        size_t operator()(const Key &key) const { return static_cast<size_t>(key.print.low + key.last); }
    };
    const int64_t max_bytes_;
    int64_t nbytes_ = 0;
    std::mutex mutex_;
    std::list<Entry> entries_;  // the most recently used first
    std::unordered_map<Key, std::list<Entry>::iterator, Hash> by_key_;
};

class TokenRows {
  public:
    explicit TokenRows(Machine &machine) : machine_(machine), shapes_(machine.pool()) {}
    // Add to `row` the tokens that `state` allows.
    void compose(const TokenTries &tries, SharedRows &shared, int32_t state, uint32_t *row);
    // Add the tokens below `node` (itself excluded, -1: the root) whose further bytes `state` allows.
    void walk(const Trie &trie, int32_t node, int32_t state, uint32_t *row);
    // The same from the root.
    void walk_all(const Trie &trie, int32_t state, uint32_t *row);

  private:
    std::shared_ptr<const TerminalRow> terminal_row(const TokenTries &tries, SharedRows &shared, Term term, bool last);
    std::shared_ptr<const TerminalRow> make_terminal_row(const TokenTries &tries, Term term, bool last);
    // A term as one whose row is shared, and what comes after it. NONE: none is worth sharing.
    struct Split {
        Term head, tail;
    };
    Split split(Term term);
    Split find_split(Term term);
    bool is_run(Term term);
    void walk_to_exits(const Trie &trie, int32_t state, uint32_t *row, std::vector<int32_t> &exits);
    void walk_apart(const TokenTries &tries, int32_t state, uint32_t *row);
    void add_plain(const TokenTries &tries, int32_t state, uint32_t *row);
    void drop_plain(const Trie &trie, int32_t state, uint32_t *row);
    bool is_mostly_plain(const Trie &trie, int32_t state);
    int32_t reach(int32_t state);
    void begin_walk(const Trie &trie);

    Machine &machine_;
    TermShapes shapes_;
    std::vector<int32_t> reach_;         // by state; -1: not known
    std::vector<Split> splits_;          // by term; head -1: not known
    std::vector<const int32_t *> rows_;  // of the walk under way, by depth
    std::vector<uint32_t> scratch_;
    std::vector<Part> parts_, rest_;
};

}  // namespace radixrt

#endif
