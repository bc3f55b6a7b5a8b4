/* A column of a chunk as an array of the Arrow C data interface, which polars and others take without copying.
 * https://arrow.apache.org/docs/format/CDataInterface.html (the two structures are copied from there). */
#ifndef SHAPESCOPE_ARROW_H
#define SHAPESCOPE_ARROW_H

#include "rows.h"

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* int64 of integers, uint32 numbers of texts. The buffers move from the column to the array. 0, or -1 without memory.
 * Each column is an array of its own: those who take one keep its memory, and not that of its chunk. */
int column_export(Column *column, int is_integer, size_t rows, struct ArrowSchema *schema, struct ArrowArray *array);

#endif
