/* The columns, in the order of shapescope/read/columns.py (a test compares the two), and the JSON fields that fill them. */
#ifndef SHAPESCOPE_COLUMNS_H
#define SHAPESCOPE_COLUMNS_H

#include <stddef.h>

enum {
    /* integers; the first two are times: microseconds as decimal text in the file, nanoseconds in the column */
    TS, DUR, ID,
    EXTERNAL_ID, CORRELATION, DEVICE, CONTEXT, PYTHON_ID, PYTHON_PARENT_ID, PYTHON_MODULE_ID, GRAPH_ID, GRAPH_NODE_ID,
    SEQUENCE_NUMBER, RECORD_FUNCTION_ID, SHARED_MEMORY, REGISTERS,
    INTEGERS,
    /* texts */
    PH = INTEGERS, CAT, NAME, PID, TID,
    STREAM, GRID, BLOCK, DIMS, TYPES, STRIDES, CONCRETE_INPUTS, KERNEL, KIND, BYTES, COLLECTIVE, ARG_NAME,
    COLUMNS,
    TEXTS = COLUMNS - INTEGERS,
    /* what else a field can be */
    OTHER_FIELD = COLUMNS, ARGS_FIELD
};

typedef struct {
    const char *key;
    unsigned char length, column;
} Field;

#define FIELD(key, column) { key, sizeof(key) - 1, column }

static const Field EVENT_FIELDS[] = {
    FIELD("ph", PH), FIELD("cat", CAT), FIELD("name", NAME), FIELD("pid", PID), FIELD("tid", TID),
    FIELD("ts", TS), FIELD("dur", DUR), FIELD("id", ID), FIELD("args", ARGS_FIELD),
};
static const Field ARGS_FIELDS[] = {
    FIELD("External id", EXTERNAL_ID), FIELD("correlation", CORRELATION), FIELD("device", DEVICE),
    FIELD("context", CONTEXT), FIELD("Python id", PYTHON_ID), FIELD("Python parent id", PYTHON_PARENT_ID),
    FIELD("Python module id", PYTHON_MODULE_ID), FIELD("graph id", GRAPH_ID), FIELD("graph node id", GRAPH_NODE_ID),
    FIELD("Sequence number", SEQUENCE_NUMBER), FIELD("Record function id", RECORD_FUNCTION_ID),
    FIELD("shared memory", SHARED_MEMORY), FIELD("registers per thread", REGISTERS),
    FIELD("stream", STREAM), FIELD("grid", GRID), FIELD("block", BLOCK), FIELD("Input Dims", DIMS),
    FIELD("Input type", TYPES), FIELD("Input Strides", STRIDES), FIELD("Concrete Inputs", CONCRETE_INPUTS),
    FIELD("kernel", KERNEL), FIELD("kind", KIND), FIELD("bytes", BYTES), FIELD("Collective name", COLLECTIVE),
    FIELD("name", ARG_NAME),
};

static const char *const COLUMN_NAMES[COLUMNS] = {
    "ts", "dur", "id", "external_id", "correlation", "device", "context", "python_id", "python_parent_id",
    "python_module_id", "graph_id", "graph_node_id", "sequence_number", "record_function_id", "shared_memory",
    "registers", "ph", "cat", "name", "pid", "tid", "stream", "grid", "block", "dims", "types", "strides",
    "concrete_inputs", "kernel", "kind", "bytes", "collective", "arg_name",
};

/* Bit sets of columns: of an event's own fields, and of those in its args. */
#define BIT(column) ((uint64_t)1 << (column))
#define EVENT_COLUMNS (BIT(PH) | BIT(CAT) | BIT(NAME) | BIT(PID) | BIT(TID) | BIT(TS) | BIT(DUR) | BIT(ID))

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

#endif
