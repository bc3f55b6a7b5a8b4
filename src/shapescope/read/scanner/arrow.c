#include "arrow.h"

#include <stdlib.h>

#define NULLABLE 2

static void release_schema(struct ArrowSchema *schema) { schema->release = NULL; }

static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->buffers);
    array->release = NULL;
}

int column_export(Column *column, int is_integer, size_t rows, struct ArrowSchema *schema, struct ArrowArray *array) {
    const void **buffers = malloc(2 * sizeof *buffers);
    if (!buffers) return -1;
    buffers[0] = column->validity;
    buffers[1] = column->values;
    memset(schema, 0, sizeof *schema);
    schema->format = is_integer ? "l" : "I";
    schema->name = "";
    schema->flags = NULLABLE;
    schema->release = release_schema;
    memset(array, 0, sizeof *array);
    array->length = (int64_t)rows;
    array->null_count = (int64_t)(rows - column->filled);
    array->n_buffers = 2;
    array->buffers = buffers;
    array->release = release_array;
    column->values = column->validity = NULL;
    return 0;
}
