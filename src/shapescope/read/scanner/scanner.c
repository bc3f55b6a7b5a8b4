#include "scanner.h"

#include <stdlib.h>

#include "event.h"

struct Scanner {
    EventReader reader;
    Rows rows;
    /* Invariant: kept[0..kept_size) is what was fed and is not done with, READABLE_BEHIND zeros behind it. */
    uint8_t *kept;
    size_t kept_size, kept_room;
    size_t left_size; /* of kept, what the last scan left */
    ScanCounts counts;
    int bare, ended, no_memory;
    int lost;          /* looking for the next event that can be read */
    int unclaimed;     /* damage that did not begin with an event: is one hidden in it? */
    uint8_t last_mark; /* the last byte passed over that is no blank */
};

Scanner *scanner_new(PythonFrames python, int bare, int lost) {
    Scanner *scanner = calloc(1, sizeof *scanner);
    if (!scanner) return NULL;
    scanner->reader.python = python;
    scanner->bare = bare;
    scanner->lost = lost;
    if (rows_init(&scanner->rows)) {
        scanner_free(scanner);
        return NULL;
    }
    return scanner;
}

void scanner_free(Scanner *scanner) {
    if (!scanner) return;
    rows_free(&scanner->rows);
    free(scanner->kept);
    free(scanner);
}

Rows *scanner_rows(Scanner *scanner) { return &scanner->rows; }

const uint8_t *scanner_rest(const Scanner *scanner, size_t *size) {
    *size = scanner->ended ? scanner->kept_size : 0;
    return scanner->kept;
}

ScanCounts scanner_counts(const Scanner *scanner) {
    ScanCounts counts = scanner->counts;
    counts.values = scanner->rows.lost_values;
    return counts;
}

/* ---- damage -------------------------------------------------------------------------------------------------------- */

#define MOST_BLANKS 64

/* Bytes from..to are lost. */
static void pass_over(Scanner *scanner, const uint8_t *text, size_t from, size_t to) {
    scanner->counts.bytes += (int64_t)(to - from);
    if (scanner->unclaimed && to > from && memchr(text + from, '"', to - from)) {
        scanner->counts.events++;
        scanner->unclaimed = 0;
    }
    while (to > from && is_blank(text[to - 1])) to--;
    if (to > from) scanner->last_mark = text[to - 1];
}

static void damaged_at(Scanner *scanner, const uint8_t *text, size_t at) {
    if (scanner->lost) {
        /* behind a colon it was an object of the event that is lost already */
        scanner->counts.events += scanner->last_mark != ':';
    } else if (text[at] == '{') {
        scanner->counts.events++;
    } else {
        scanner->unclaimed = 1;
    }
    scanner->lost = 1;
    pass_over(scanner, text, at, at + 1);
}

typedef enum { NO_MATCH, MATCH, PARTIAL } Match;

static size_t skip_some_blanks(const uint8_t *text, size_t at, size_t size) {
    size_t most = size - at > MOST_BLANKS ? at + MOST_BLANKS : size;
    return skip_blanks(text, at, most);
}

/* `{ "ph" :`, or any other field of an event. Such bytes cannot stand within a string, whose quotes would be escaped. */
static Match event_begins(const uint8_t *text, size_t at, size_t size) {
    size_t key, end;
    at = skip_some_blanks(text, at + 1, size);
    if (at >= size) return PARTIAL;
    if (text[at] != '"') return NO_MATCH;
    for (key = end = at + 1; end < size && end - key < 5 && text[end] >= 'a' && text[end] <= 'z';) end++;
    if (end >= size) return end - key <= 4 ? PARTIAL : NO_MATCH;
    if (text[end] != '"') return NO_MATCH;
    at = skip_some_blanks(text, end + 1, size);
    if (at < size && text[at] != ':') return NO_MATCH;
    for (size_t i = 0; i < LENGTH(EVENT_FIELDS); i++)
        if (EVENT_FIELDS[i].length == end - key && !memcmp(EVENT_FIELDS[i].key, text + key, end - key))
            return at < size ? MATCH : PARTIAL;
    return at < size ? NO_MATCH : PARTIAL;
}

/* `"traceEvents": [`: another document's list of events. */
static Match list_begins(const uint8_t *text, size_t at, size_t size) {
    static const char KEY[] = "\"traceEvents\"";
    const size_t length = sizeof KEY - 1;
    if (memcmp(text + at, KEY, length < size - at ? length : size - at)) return NO_MATCH;
    if (size - at <= length) return PARTIAL;
    at = skip_some_blanks(text, at + length, size);
    if (at < size && text[at] != ':') return NO_MATCH;
    if (at + 1 >= size) return PARTIAL;
    at = skip_some_blanks(text, at + 1, size);
    return at >= size ? PARTIAL : text[at] == '[' ? MATCH : NO_MATCH;
}

/* Where the next event, or another list of events, may begin: MATCH. Else where to go on looking once there is more. */
NOINLINE Match find_start(const uint8_t *text, size_t *at, size_t size, int final) {
    for (; *at < size; ++*at) {
        Match match = NO_MATCH;
        if (text[*at] == '{') match = event_begins(text, *at, size);
        else if (text[*at] == '"') match = list_begins(text, *at, size);
        if (match == MATCH || (match == PARTIAL && !final)) return match;
    }
    return NO_MATCH;
}

/* Whether the `]` at `at` closes the list of events: a flipped byte can fake one. PARTIAL: cannot tell yet. */
NOINLINE Match list_ends(const Scanner *scanner, const uint8_t *text, size_t at, size_t size, int final) {
    at = skip_blanks(text, at + 1, size);
    if (at >= size) return final ? MATCH : PARTIAL;
    if (scanner->bare) return text[at] == ',' || text[at] == '{' ? NO_MATCH : MATCH;
    if (text[at] != ',') return text[at] == '}' ? MATCH : NO_MATCH;
    at = skip_blanks(text, at + 1, size);
    if (at >= size) return final ? MATCH : PARTIAL;
    return text[at] == '"' ? MATCH : NO_MATCH;
}

/* ---- scanning ------------------------------------------------------------------------------------------------------ */

/* Remembers the way from behind one event into the next. */
static void remember_first(EventReader *reader, const Stretch *found, const uint8_t *text, size_t from, size_t brace,
                           size_t to) {
    if (!found->length || found->target != TO_EVENT_VALUE || to - from > LONGEST_STRETCH) return;
    reader->first = *found;
    reader->first.length = (uint8_t)(to - from);
    reader->first.brace = (uint8_t)(brace - from);
    memcpy(reader->first.bytes, text + from, to - from);
}

/* Reads all events that text[0..size) holds whole; returns how much of it is done with. */
static size_t scan(Scanner *scanner, const uint8_t *text, size_t size, int final) {
    EventReader *reader = &scanner->reader;
    size_t at = 0, begin, after;
    Row row;
    for (;;) {
        Stretch found;
        const Stretch *first = &found;
        int unwanted;
        if (LIKELY(!scanner->lost && is_remembered(&reader->first, text, at, size))) {
            first = &reader->first;
            begin = at + first->brace;
            after = at + first->length;
        } else {
            size_t from = at;
            if (scanner->lost) {
                Match match = find_start(text, &at, size, final);
                pass_over(scanner, text, from, at);
                if (match != MATCH) return at;
                if (text[at] == '"') { /* another document begins: this list has no end of its own */
                    scanner->ended = 1;
                    return at;
                }
            } else {
                while (at < size && (is_blank(text[at]) || text[at] == ',')) at++;
                if (at >= size) return at;
                if (text[at] == ']') {
                    Match match = list_ends(scanner, text, at, size, final);
                    if (match == PARTIAL) return at;
                    if (match == MATCH) {
                        scanner->ended = 1;
                        return at + 1;
                    }
                }
            }
            begin = at;
            after = text[at] == '{' ? read_first_key(text, at + 1, size, &found) : BAD;
            if (IS_INDEX(after) && !scanner->lost) remember_first(reader, &found, text, from, begin, after);
        }
        if (IS_INDEX(after)) after = read_event(reader, text, after, size, first, scanner->lost, &row, &unwanted);
        if (after == MORE && !final && size - begin <= LARGEST_EVENT) return begin;
        if (!IS_INDEX(after)) {
            damaged_at(scanner, text, begin);
            at = begin + 1;
            continue;
        }
        if (scanner->lost && !(row.marks.set >> PH & 1)) { /* an object within an event, not an event */
            pass_over(scanner, text, begin, after);
            at = after;
            continue;
        }
        scanner->lost = scanner->unclaimed = 0;
        at = after;
        if (unwanted || is_unwanted(reader, &row)) {
            scanner->counts.unwanted++;
            continue;
        }
        if (rows_add(&scanner->rows, &row)) {
            scanner->no_memory = 1;
            return at;
        }
    }
}

#define FIRST_PART 4096

/* Keeps text[0..size) behind what is kept already. */
static int keep(Scanner *scanner, const uint8_t *text, size_t size) {
    if (size > SIZE_MAX / 4 || grow(&scanner->kept, &scanner->kept_room, scanner->kept_size + size + READABLE_BEHIND, 1)) {
        scanner->no_memory = 1;
        return -1;
    }
    if (size) memcpy(scanner->kept + scanner->kept_size, text, size);
    scanner->kept_size += size;
    memset(scanner->kept + scanner->kept_size, 0, READABLE_BEHIND);
    return 0;
}

static void scan_kept(Scanner *scanner, int final) {
    size_t done = scan(scanner, scanner->kept, scanner->kept_size, final);
    if (final && !scanner->ended) {
        pass_over(scanner, scanner->kept, done, scanner->kept_size);
        done = scanner->kept_size;
    }
    scanner->kept_size -= done;
    scanner->left_size = scanner->kept_size;
    memmove(scanner->kept, scanner->kept + done, scanner->kept_size + READABLE_BEHIND);
}

/* A piece is scanned where it lies, without a copy. Only the event that it begins in the midst of, and the one that it ends
 * in, are put together in `kept`. This completes the former; returns how much of the text is taken. */
static size_t complete_kept(Scanner *scanner, const uint8_t *text, size_t size) {
    size_t taken = 0, part = FIRST_PART;
    while (scanner->kept_size && taken < size && !scanner->ended) {
        if (part > size - taken) part = size - taken;
        if (keep(scanner, text + taken, part)) return taken;
        taken += part;
        /* What is left is read again from its beginning: not before there is half as much text again. */
        if (scanner->kept_size < scanner->left_size + scanner->left_size / 2 && taken == size) return taken;
        scan_kept(scanner, 0);
        if (scanner->kept_size <= part && !scanner->ended && !scanner->no_memory) {
            taken -= scanner->kept_size; /* all that was kept before is done with: go on where the text lies */
            scanner->kept_size = scanner->left_size = 0;
        }
        part = scanner->kept_size;
    }
    return taken;
}

ScanState scanner_feed(Scanner *scanner, const uint8_t *text, size_t size, int final) {
    size_t taken;
    if (scanner->no_memory) return SCAN_NO_MEMORY;
    taken = complete_kept(scanner, text, size);
    if (!scanner->no_memory && !scanner->ended && size - taken > READABLE_BEHIND)
        taken += scan(scanner, text + taken, size - taken - READABLE_BEHIND, 0);
    if (!scanner->no_memory) keep(scanner, text + taken, size - taken);
    if (!scanner->no_memory && final && !scanner->ended) scan_kept(scanner, 1);
    if (!scanner->no_memory && (final || scanner->ended) && rows_seal(&scanner->rows)) scanner->no_memory = 1;
    return scanner->no_memory ? SCAN_NO_MEMORY : scanner->ended ? SCAN_ENDED : SCAN_MORE;
}
