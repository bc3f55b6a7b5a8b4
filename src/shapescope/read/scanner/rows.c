#include "rows.h"

#include <stdlib.h>

int rows_init(Rows *rows) {
    memset(rows, 0, sizeof *rows);
    for (int i = 0; i < COLUMNS; i++) rows->latest[i].size = SIZE_MAX;
    return texts_init(&rows->texts);
}

void rows_free(Rows *rows) {
    for (Chunk *chunk = rows->first, *next; chunk; chunk = next) {
        next = chunk->next;
        chunk_free(chunk);
    }
    texts_free(&rows->texts);
}

void chunk_free(Chunk *chunk) {
    for (int i = 0; i < COLUMNS; i++) {
        free(chunk->columns[i].values);
        free(chunk->columns[i].validity);
    }
    free(chunk);
}

static Chunk *open_chunk(Rows *rows) {
    Chunk *chunk = rows->last;
    if (chunk && !chunk->sealed) return chunk;
    chunk = calloc(1, sizeof *chunk);
    if (!chunk) return NULL;
    if (rows->last) rows->last->next = chunk;
    else rows->first = chunk;
    return rows->last = chunk;
}

/* Until a chunk is sealed, its nulls are the values NO_NUMBER and NO_TEXT. */
static void *new_values(int column) {
    if (column < INTEGERS) {
        int64_t *values = malloc(CHUNK_ROWS * sizeof *values);
        for (size_t i = 0; values && i < CHUNK_ROWS; i++) values[i] = NO_NUMBER;
        return values;
    }
    uint32_t *values = malloc(CHUNK_ROWS * sizeof *values);
    if (values) memset(values, 0xff, CHUNK_ROWS * sizeof *values);
    return values;
}

/* The number of a text. Nearly always it is the one that this column had last: compared before it is hashed. */
static uint32_t text_number(Rows *rows, const Row *row, int column) {
    const uint8_t *value = row->texts[column].at;
    size_t size = row->texts[column].size;
    int is_string = row->marks.strings >> column & 1, repaired = 0;
    Spelling spelling = !is_string ? JSON_TEXT : row->marks.escaped >> column & 1 ? STRING_WITH_ESCAPES : STRING;
    uint32_t number;
    if (LIKELY(spelling != STRING_WITH_ESCAPES && rows->latest[column].size == size)
        && rows->latest[column].is_string == is_string
        && same_bytes(rows->texts.bytes + rows->texts.offsets[rows->latest[column].number], value, size))
        return rows->latest[column].number;
    number = texts_add(&rows->texts, value, size, spelling, &repaired);
    rows->lost_values += repaired;
    if (number != NO_TEXT) {
        const int64_t *begin = rows->texts.offsets + number;
        /* Invariant: `latest` is a text whose spelling is the text itself, and clean: equal bytes mean the same. */
        int as_spelled = !repaired && spelling != STRING_WITH_ESCAPES && (size_t)(begin[1] - begin[0]) == size;
        rows->latest[column].size = as_spelled ? size : SIZE_MAX;
        rows->latest[column].number = number;
        rows->latest[column].is_string = is_string;
    }
    return number;
}

int rows_add(Rows *rows, const Row *row) {
    Chunk *chunk = open_chunk(rows);
    if (!chunk) return -1;
    for (uint64_t set = row->marks.set; set; set &= set - 1) {
        int column = (int)lowest_bit(set);
        Column *to = &chunk->columns[column];
        if (!to->values && !(to->values = new_values(column))) return -1;
        if (column < INTEGERS) {
            ((int64_t *)to->values)[chunk->rows] = row->numbers[column];
        } else {
            uint32_t number = text_number(rows, row, column);
            if (number == NO_TEXT) return -1;
            ((uint32_t *)to->values)[chunk->rows] = number;
        }
        to->filled++;
    }
    for (uint64_t lost = row->marks.lost; lost; lost &= lost - 1) rows->lost_values++;
    chunk->rows++;
    rows->rows++;
    return chunk->rows == CHUNK_ROWS ? rows_seal(rows) : 0;
}

int rows_seal(Rows *rows) {
    Chunk *chunk = rows->last;
    if (!chunk || chunk->sealed) return 0;
    for (int i = 0; i < COLUMNS; i++) {
        Column *column = &chunk->columns[i];
        if (!column->values || column->filled == chunk->rows) continue;
        if (!(column->validity = malloc(CHUNK_ROWS / 8))) return -1;
        for (size_t row = 0; row < CHUNK_ROWS; row += 8) {
            int bits = 0;
            for (size_t bit = 0; bit < 8; bit++) {
                int valid = i < INTEGERS ? ((int64_t *)column->values)[row + bit] != NO_NUMBER
                                         : ((uint32_t *)column->values)[row + bit] != NO_TEXT;
                bits |= valid << bit;
            }
            column->validity[row / 8] = (uint8_t)bits;
        }
    }
    chunk->sealed = 1;
    return 0;
}

Chunk *rows_take(Rows *rows) {
    Chunk *chunk = rows->first;
    if (!chunk || !chunk->sealed) return NULL;
    rows->first = chunk->next;
    if (!rows->first) rows->last = NULL;
    chunk->next = NULL;
    return chunk;
}
