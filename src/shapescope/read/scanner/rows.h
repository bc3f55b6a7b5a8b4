/* Columns in the making: chunks of rows, sealed when full or at the end, then handed out. */
#ifndef SHAPESCOPE_ROWS_H
#define SHAPESCOPE_ROWS_H

#include "columns.h"
#include "number.h"
#include "text.h"

#ifndef SHAPESCOPE_CHUNK_ROWS
#define SHAPESCOPE_CHUNK_ROWS 32768 /* a multiple of 8; tests build with few, to see many chunks */
#endif
#define CHUNK_ROWS ((size_t)SHAPESCOPE_CHUNK_ROWS)

/* A column that has no value in a chunk has no memory: `values` is NULL. */
typedef struct {
    void *values;      /* int64_t of an integer column, uint32_t numbers of texts of a text column */
    uint8_t *validity; /* one bit a row, lowest first, set where there is a value (as Apache Arrow has it); NULL: all are */
    size_t filled;     /* rows with a value */
} Column;

typedef struct Chunk {
    Column columns[COLUMNS];
    size_t rows;
    int sealed;
    struct Chunk *next;
} Chunk;

/* One event as it is read. The pointers lead into the scanned text. */
typedef struct {
    struct Marks {
        uint64_t set;     /* columns that have a value */
        uint64_t lost;    /* number columns whose value could not be kept */
        uint64_t strings; /* text columns whose value is a JSON string .. */
        uint64_t escaped; /* .. with escapes in it */
    } marks;
    int64_t numbers[INTEGERS];
    struct { const uint8_t *at; size_t size; } texts[COLUMNS]; /* from PH on */
} Row;

typedef struct {
    Chunk *first, *last; /* all but the last are sealed */
    Texts texts;
    struct { size_t size; uint32_t number; int is_string; } latest[COLUMNS]; /* SIZE_MAX: none */
    int64_t rows, lost_values;
} Rows;

int rows_init(Rows *rows); /* 0, or -1 without memory; rows_free is due in both cases */
void rows_free(Rows *rows);
int rows_add(Rows *rows, const Row *row); /* 0, or -1 without memory */
int rows_seal(Rows *rows);                /* seals the last chunk; 0, or -1 without memory */
Chunk *rows_take(Rows *rows);             /* the oldest sealed chunk, now the caller's; NULL where there is none */
void chunk_free(Chunk *chunk);

#endif
