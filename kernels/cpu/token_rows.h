// Mask rows: which tokens a state of a machine allows.
//
// Most of a mask is decided inside the terminal that is being read: of fifty thousand tokens that may follow inside a
// string, only those with a quote in them leave it. So the row of a terminal with many next bytes is made once for all
// places where it occurs: the tokens that stay inside it, and its *exits*, the nodes of the token trie at which it can
// be complete, below which it depends on the place what is allowed. Terms are told apart by fingerprint, so grammars
// that were compiled apart share rows. Where nothing can follow a terminal, only its prefixes matter, and terms with
// the same prefixes share a row. Plain tokens (token_trie.h) are taken as a whole as far as a terminal can be seen to
// go on after any plain text.
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
#include "token_trie.h"

namespace radixrt {

struct TerminalRow {
    struct Exit {
        std::vector<uint8_t> path;      // bytes that lead to a state in which the terminal can be complete
        std::vector<int32_t> nodes[2];  // where that very state is reached, in the tries of plain and other tokens
    };
    std::vector<uint32_t> bits;
    std::vector<Exit> exits;
    bool leaves_everywhere = false;  // so that walking below the exits is no gain

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

// What plain texts do to terms of one pool. All answers are safe to be too small.
class PlainReach {
  public:
    static constexpr int32_t ENDLESS = 1 << 30;

    explicit PlainReach(Pool &pool) : pool_(pool) {}
    // After any plain text of at most so many bytes the term can go on. The term is not empty.
    int32_t of(Term term) { return reach(term, DEEPEST); }
    // Every string of the term has a byte that no plain text has.
    bool always_leaves(Term term) { return leaves(term, DEEPEST); }
    // A term that has the same prefixes.
    Term same_prefixes(Term term);

  private:
    static constexpr int DEEPEST = 12;  // of terms in terms that are looked at
    static constexpr int PATIENCE = 512;  // terms looked at for one answer of `within_star`
    // What is known of a term that was looked into so deep: enough where it is the most, or no deeper look is asked.
    struct Known {
        int32_t reach = -1;
        int8_t reach_depth = -1, leaves = -1, leaves_depth = -1, covers = -1;
    };
    Known &known(Term term);
    int32_t reach(Term term, int depth);
    int32_t find_reach(Term term, int depth);
    int32_t reach_of_all(Term term);
    bool leaves(Term term, int depth);
    bool find_leaves(Term term, int depth);
    bool covers_plain(Term term);
    bool within_star(Term term, Term star, int depth);
    Term endless_part(Term term) const;

    Pool &pool_;
    Term plain_character_ = NONE;
    int patience_ = 0;
    std::vector<Known> known_;  // by term
    std::unordered_map<Term, Term> prefixes_;
};

class TokenRows {
  public:
    explicit TokenRows(Machine &machine) : machine_(machine), plain_(machine.pool()) {}
    // Add to `row` the tokens that `state` allows.
    void compose(const TokenTries &tries, SharedRows &shared, int32_t state, uint32_t *row);
    // Add the tokens below `node` (itself excluded, -1: all) whose further bytes `state` allows.
    void walk(const Trie &trie, int32_t node, int32_t state, uint32_t *row);

  private:
    // Where a terminal can be complete: nodes by the state there.
    struct Exits {
        std::vector<TerminalRow::Exit> groups;
        std::vector<int32_t> states;
        int trie = 0;
        int64_t below = 0;  // nodes below the exits
        void add(int32_t state, int32_t node, int32_t nodes_below, const uint8_t *path, size_t length);
    };

    std::shared_ptr<const TerminalRow> terminal_row(const TokenTries &tries, SharedRows &shared, Part part);
    std::shared_ptr<const TerminalRow> make_terminal_row(const TokenTries &tries, Term term, bool last);
    void walk_below_exits(const TokenTries &tries, const TerminalRow &row, int32_t alone, uint32_t *bits);
    void walk_to_exits(const Trie &trie, int32_t state, uint32_t *row, Exits &exits);
    void walk_apart(const TokenTries &tries, int32_t state, uint32_t *row);
    void add_plain(const TokenTries &tries, int32_t state, uint32_t *row);
    void drop_plain(const Trie &trie, int32_t state, uint32_t *row);
    bool is_mostly_plain(const Trie &trie, int32_t state);
    int32_t reach(int32_t state);
    void begin_walk(const Trie &trie);

    Machine &machine_;
    PlainReach plain_;
    std::vector<int32_t> reach_;         // by state; -1: not known
    std::vector<const int32_t *> rows_;  // of the walk under way, by depth
    std::vector<uint8_t> path_;
    std::vector<uint32_t> scratch_;
    std::vector<Part> parts_, rest_;
};

}  // namespace radixrt

#endif
