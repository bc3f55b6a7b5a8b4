#include "arrow.h"

#include <stdlib.h>

#define NULLABLE 2

static void release_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i] && schema->children[i]->release) schema->children[i]->release(schema->children[i]);
        free(schema->children[i]);
    }
    free(schema->children);
    schema->release = NULL;
}

static void release_array(struct ArrowArray *array) {
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i] && array->children[i]->release) array->children[i]->release(array->children[i]);
        free(array->children[i]);
    }
    for (int64_t i = 0; i < array->n_buffers; i++) free((void *)array->buffers[i]);
    free(array->children);
    free(array->buffers);
    array->release = NULL;
}

static int init_schema(struct ArrowSchema *schema, const char *format, const char *name, int64_t children) {
    memset(schema, 0, sizeof *schema);
    schema->format = format;
    schema->name = name;
    schema->flags = NULLABLE;
    schema->release = release_schema;
    if (children && !(schema->children = calloc((size_t)children, sizeof *schema->children))) return -1;
    schema->n_children = children;
    for (int64_t i = 0; i < children; i++)
        if (!(schema->children[i] = calloc(1, sizeof **schema->children))) return -1;
    return 0;
}

static int init_array(struct ArrowArray *array, size_t length, int64_t buffers, int64_t children) {
    memset(array, 0, sizeof *array);
    array->length = (int64_t)length;
    array->release = release_array;
    if (!(array->buffers = calloc((size_t)buffers, sizeof *array->buffers))) return -1;
    array->n_buffers = buffers;
    if (children && !(array->children = calloc((size_t)children, sizeof *array->children))) return -1;
    array->n_children = children;
    for (int64_t i = 0; i < children; i++)
        if (!(array->children[i] = calloc(1, sizeof **array->children))) return -1;
    return 0;
}

int chunk_export(Chunk *chunk, struct ArrowSchema *schema, struct ArrowArray *array) {
    int64_t present = 0, at = 0;
    int failed;
    for (int i = 0; i < COLUMNS; i++) present += chunk->columns[i].values != NULL;
    failed = init_schema(schema, "+s", "", present);
    failed |= init_array(array, chunk->rows, 1, present);
    for (int i = 0; i < COLUMNS && !failed; i++) {
        Column *column = &chunk->columns[i];
        if (!column->values) continue;
        failed |= init_schema(schema->children[at], i < INTEGERS ? "l" : "I", COLUMN_NAMES[i], 0);
        failed |= init_array(array->children[at], chunk->rows, 2, 0);
        if (failed) break;
        array->children[at]->null_count = (int64_t)(chunk->rows - column->filled);
        array->children[at]->buffers[0] = column->validity;
        array->children[at]->buffers[1] = column->values;
        column->values = column->validity = NULL;
        at++;
    }
    if (!failed) return 0;
    release_schema(schema);
    release_array(array);
    return -1;
}
