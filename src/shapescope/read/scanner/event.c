#include "event.h"

#include <stdlib.h>

static const char PYTHON_CATEGORY[] = "python_function", MODULE_PREFIX[] = "nn.Module: ";
#define MODULE_PREFIX_SIZE (sizeof MODULE_PREFIX - 1)

/* ---- values --------------------------------------------------------------------------------------------------- */

INLINE int is_word_byte(uint8_t c) {
    return (uint8_t)(c - '0') < 10 || (uint8_t)((c | 0x20) - 'a') < 26 || c == '-' || c == '+' || c == '.';
}

/* A number, a literal, or any other word in their place (NaN): the end of it. */
INLINE size_t word_end(const uint8_t *text, size_t at, size_t size) {
    size_t begin = at;
#ifndef PLAIN_BYTES
    Mask found = 0;
    while (at < size && !(found = no_decimals(text + at))) at += BLOCK_BYTES;
    if (found) at += MASK_INDEX(found);
#endif
    while (at < size && is_word_byte(text[at])) at++;
    if (at >= size) return MORE;
    if (at == begin || !(text[at] == ',' || text[at] == '}' || text[at] == ']' || is_blank(text[at]))) return BAD;
    return at;
}

static int opener_fits(const uint8_t *text, size_t at, int in_object) {
    do at--;
    while (is_blank(text[at]));
    return in_object ? text[at] == ':' : text[at] == ',' || text[at] == '[';
}

/* The kinds of the brackets that are open, a bit each, as many as needed: traces nest to any depth. */
typedef struct {
    uint64_t near;  /* the innermost 64; 1 is an object */
    size_t depth;
    uint64_t *far; /* the others, 64 each */
    size_t far_size;
} Brackets;

static int open_bracket(Brackets *open, int is_object) {
    if (open->depth && open->depth % 64 == 0) {
        size_t index = open->depth / 64 - 1;
        if (grow(&open->far, &open->far_size, index + 1, sizeof *open->far)) return -1;
        open->far[index] = open->near;
    }
    open->near = open->near << 1 | (uint64_t)is_object;
    open->depth++;
    return 0;
}

static void close_bracket(Brackets *open) {
    open->depth--;
    open->near >>= 1;
    if (open->depth && open->depth % 64 == 0) open->near = open->far[open->depth / 64 - 1];
}

/* Where the list or object that begins at `at` ends. Within an object an opener must follow a colon, within a list a comma
 * or an opener: otherwise one lost bracket would swallow all that follows. */
static size_t nested_end(const uint8_t *text, size_t at, size_t size, Brackets *open) {
    int escapes;
    while (at < size) {
        Mask found = quotes_and_brackets(text + at);
        size_t block = at;
        at += BLOCK_BYTES;
        for (; found; found = without_first(found)) {
            size_t here = block + MASK_INDEX(found);
            uint8_t c;
            if (here >= size) return MORE;
            c = text[here];
            if (c == '"') {
                here = string_end(text, here + 1, size, &escapes);
                if (here >= size) return MORE;
                at = here + 1;
                break; /* what else was found in the block may lie in the string */
            }
            if (c == '[' || c == '{') {
                if (open->depth && !opener_fits(text, here, open->near & 1)) return BAD;
                if (open_bracket(open, c == '{')) return BAD;
            } else {
                if ((open->near & 1) != (c == '}')) return BAD;
                close_bracket(open);
                if (!open->depth) return here + 1;
            }
        }
    }
    return MORE;
}

INLINE size_t value_end(const uint8_t *text, size_t at, size_t size) {
    uint8_t c = text[at];
    int escapes;
    if (c == '"') {
        at = string_end(text, at + 1, size, &escapes);
        return at < size ? at + 1 : MORE;
    }
    if (c == '{' || c == '[') {
        Brackets open = { 0, 0, NULL, 0 };
        at = nested_end(text, at, size, &open);
        free(open.far);
        return at;
    }
    return word_end(text, at, size);
}

INLINE int is_null(const uint8_t *value, size_t size) { return size == 4 && !memcmp(value, "null", 4); }

/* A value of a number column; returns its end. */
INLINE size_t read_number(const uint8_t *text, size_t at, size_t size, int column, Row *row, struct Marks *marks) {
    const int scale = column == TS || column == DUR ? 3 : 0;
    int64_t value = NO_NUMBER;
    int lost = 0;
    size_t length = plain_number(text + at, scale, &value), end = at + length;
    if (LIKELY(length && end < size)) {
        row->numbers[column] = value;
        marks->set |= BIT(column);
        marks->lost &= ~BIT(column);
        return end;
    }
    end = value_end(text, at, size);
    if (!IS_INDEX(end)) return end;
    if (text[at] == '"') value = exact_number(text + at + 1, end - at - 2, scale, 1, &lost);
    else if (text[at] != '[' && text[at] != '{' && !is_null(text + at, end - at))
        value = exact_number(text + at, end - at, scale, 0, &lost);
    row->numbers[column] = value;
    marks->set = value == NO_NUMBER ? marks->set & ~BIT(column) : marks->set | BIT(column);
    marks->lost = lost ? marks->lost | BIT(column) : marks->lost & ~BIT(column);
    return end;
}

/* A value of a text column; returns its end. */
INLINE size_t read_text(const uint8_t *text, size_t at, size_t size, int column, Row *row, struct Marks *marks) {
    const uint64_t bit = BIT(column);
    size_t begin = at, end;
    int escapes = 0;
    if (LIKELY(text[at] == '"')) {
        end = string_end(text, ++begin, size, &escapes);
        if (end >= size) return MORE;
        marks->set |= bit;
        marks->strings |= bit;
        marks->escaped = escapes ? marks->escaped | bit : marks->escaped & ~bit;
        row->texts[column].at = text + begin;
        row->texts[column].size = end - begin;
        return end + 1;
    }
    end = value_end(text, at, size);
    if (!IS_INDEX(end)) return end;
    marks->set = is_null(text + at, end - at) ? marks->set & ~bit : marks->set | bit;
    marks->strings &= ~bit;
    row->texts[column].at = text + begin;
    row->texts[column].size = end - begin;
    return end;
}

/* ---- from value to value ------------------------------------------------------------------------------------------ */

NOINLINE int column_of(const uint8_t *key, size_t size, int in_args) {
    const Field *fields = in_args ? ARGS_FIELDS : EVENT_FIELDS;
    const size_t count = in_args ? LENGTH(ARGS_FIELDS) : LENGTH(EVENT_FIELDS);
    for (size_t i = 0; i < count; i++)
        if (fields[i].length == size && !memcmp(fields[i].key, key, size)) return fields[i].column;
    return OTHER_FIELD;
}

/* A key may be spelled with escapes; none that is known is longer than this once they are resolved. */
static int column_of_escaped(const uint8_t *key, size_t size, int in_args) {
    uint8_t plain[256];
    int repaired;
    if (size > sizeof plain) return OTHER_FIELD;
    return column_of(plain, unescape(plain, key, size, &repaired), in_args);
}

static uint8_t slot_of(int column, const uint8_t *key, size_t size, int in_args) {
    uint32_t hash = 0;
    if (column != OTHER_FIELD) return (uint8_t)column;
    for (size_t i = 0; i < size; i++) hash = hash * 31 + key[i];
    return (uint8_t)(COLUMNS + 2 + hash % (HASHED_SLOTS / 2) + (in_args ? HASHED_SLOTS / 2 : 0));
}

/* The slow and general way from behind a value (or, with a field `expected`, from behind a `{`) to the next. */
NOINLINE size_t parse_stretch(const uint8_t *text, size_t at, size_t size, int in_args, int expected, Stretch *to) {
    memset(to, 0, sizeof *to);
    to->length = 1;
    for (;;) {
        int escapes = 0, column;
        size_t key, key_size;
        at = skip_blanks(text, at, size);
        if (at >= size) return MORE;
        if (text[at] == ',') {
            expected = 1;
            at++;
            continue;
        }
        if (text[at] == '}') {
            at++;
            if (!in_args) {
                to->target = TO_END;
                return at;
            }
            in_args = expected = 0;
            continue;
        }
        if (text[at] != '"' || !expected) return BAD;
        key = at + 1;
        at = string_end(text, key, size, &escapes);
        if (at >= size) return MORE;
        key_size = at - key;
        at = skip_blanks(text, at + 1, size);
        if (at < size && text[at] != ':') return BAD;
        at = skip_blanks(text, at + 1, size);
        if (at >= size) return MORE;
        column = escapes ? column_of_escaped(text + key, key_size, in_args) : column_of(text + key, key_size, in_args);
        if (column == ARGS_FIELD) {
            to->begins_args = 1;
            if (text[at] == '{') {
                in_args = expected = 1;
                at++;
                continue;
            }
            to->length = 0; /* it took a look at the byte behind the stretch */
        }
        to->target = in_args ? TO_ARGS_VALUE : TO_EVENT_VALUE;
        to->column = (uint8_t)column;
        to->slot = slot_of(column, text + key, key_size, in_args);
        return at;
    }
}

size_t read_first_key(const uint8_t *text, size_t at, size_t size, Stretch *to) {
    return parse_stretch(text, at, size, 0, 1, to);
}

/* Read on from behind the value whose field has `slot`; *to is what follows. */
INLINE size_t next_value(EventReader *reader, const uint8_t *text, size_t at, size_t size, int slot, int in_args,
                         const Stretch **to) {
    Stretch *known = reader->after[slot], found;
    size_t end;
    if (LIKELY(is_remembered(known, text, at, size))) {
        *to = known;
        return at + known[0].length;
    }
    if (is_remembered(known + 1, text, at, size)) {
        *to = known + 1;
        return at + known[1].length;
    }
    end = parse_stretch(text, at, size, in_args, 0, &found);
    if (!IS_INDEX(end)) return end;
    if (found.length && end - at <= LONGEST_STRETCH) {
        found.length = (uint8_t)(end - at);
        memcpy(found.bytes, text + at, end - at);
    } else {
        found.length = 0;
    }
    known[1] = known[0];
    known[0] = found;
    *to = known;
    return end;
}

/* ---- Python frames ------------------------------------------------------------------------------------------------ */

static int text_begins(const Row *row, const struct Marks *marks, int column, const char *prefix, size_t size, int whole) {
    const uint8_t *value = row->texts[column].at;
    size_t value_size = row->texts[column].size;
    uint8_t plain[256];
    int repaired;
    if (marks->strings & marks->escaped & BIT(column)) {
        if (value_size > 6 * (size + 1)) value_size = 6 * (size + 1); /* as many escapes as the prefix could be spelled in */
        value_size = unescape(plain, value, value_size, &repaired);
        value = plain;
    }
    return value_size >= size && (!whole || value_size == size) && !memcmp(value, prefix, size);
}

INLINE int is_python(const Row *row, const struct Marks *marks) {
    return (marks->set >> CAT & 1) && text_begins(row, marks, CAT, PYTHON_CATEGORY, sizeof PYTHON_CATEGORY - 1, 1);
}

static int is_module(const Row *row, const struct Marks *marks) {
    return (marks->set >> NAME & 1) && text_begins(row, marks, NAME, MODULE_PREFIX, MODULE_PREFIX_SIZE, 0);
}

int is_unwanted(const EventReader *reader, const Row *row) {
    if (reader->python == PYTHON_ALL || !is_python(row, &row->marks)) return 0;
    return reader->python == PYTHON_NONE || !is_module(row, &row->marks);
}

/* Whether the rest of an event need not be read, once its field `column` has been. */
INLINE int can_drop(const EventReader *reader, const Row *row, const struct Marks *marks, int column) {
    if (reader->python == PYTHON_NONE) return column == CAT && is_python(row, marks);
    return (marks->set >> NAME & 1) && is_python(row, marks) && !is_module(row, marks);
}

/* ---- an event ------------------------------------------------------------------------------------------------------ */

/* Walk to the end of an event of which nothing is kept. *again is set where a field comes a second time that decides
 * whether it is kept. */
static size_t skip_event(EventReader *reader, const uint8_t *text, size_t at, size_t size, int slot, int in_args,
                         int *again) {
    const Stretch *next;
    for (;;) {
        at = next_value(reader, text, at, size, slot, in_args, &next);
        if (!IS_INDEX(at) || next->target == TO_END) return at;
        at = skip_blanks(text, at, size);
        if (at >= size) return MORE;
        slot = next->slot, in_args = next->target == TO_ARGS_VALUE;
        if (next->column == CAT || (next->column == NAME && reader->python == PYTHON_MODULES)) *again = 1;
        at = value_end(text, at, size);
        if (!IS_INDEX(at)) return at;
    }
}

size_t read_event(EventReader *reader, const uint8_t *text, size_t at, size_t size, const Stretch *first, int keep_all,
                  Row *row, int *unwanted) {
    const Stretch *next = first;
    const int drops = reader->python != PYTHON_ALL && !keep_all;
    struct Marks marks = { 0, 0, 0, 0 };
    *unwanted = 0;
    for (;;) {
        const int column = next->column, slot = next->slot, in_args = next->target == TO_ARGS_VALUE;
        if (next->begins_args) { /* a second args replaces the first */
            marks.set &= EVENT_COLUMNS;
            marks.lost &= EVENT_COLUMNS;
        }
        if (next->target == TO_END) {
            row->marks = marks;
            return at;
        }
        at = skip_blanks(text, at, size);
        if (at >= size) return MORE;
        if (column < INTEGERS) at = read_number(text, at, size, column, row, &marks);
        else if (column < COLUMNS) at = read_text(text, at, size, column, row, &marks);
        else at = value_end(text, at, size);
        if (!IS_INDEX(at)) return at;
        if (drops && (column == CAT || column == NAME) && can_drop(reader, row, &marks, column)) {
            int again = 0;
            size_t end = skip_event(reader, text, at, size, slot, in_args, &again);
            if (!again) {
                *unwanted = 1;
                return end;
            }
        }
        at = next_value(reader, text, at, size, slot, in_args, &next);
        if (!IS_INDEX(at)) return at;
    }
}
