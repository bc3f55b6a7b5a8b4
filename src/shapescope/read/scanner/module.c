/* The binding to CPython, in its stable ABI (3.11 and later): `_scanner.Scanner`. Only this file knows Python. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdlib.h>

#include "arrow.h"
#include "scanner.h"

typedef struct {
    PyObject_HEAD
    Scanner *scanner;
    int busy; /* a thread is in feed, without the interpreter lock */
} ScannerObject;

typedef struct {
    PyObject_HEAD
    Column column;
    int is_integer;
    size_t rows;
} ColumnObject;

static void free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_memory(self);
    Py_DECREF(type);
}

/* ---- Column: the Arrow PyCapsule interface -------------------------------------------------------------------------- */

static void schema_capsule_free(PyObject *capsule) {
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (schema->release) schema->release(schema);
    free(schema);
}

static void array_capsule_free(PyObject *capsule) {
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");
    if (array->release) array->release(array);
    free(array);
}

static PyObject *column_arrow_c_array(PyObject *object, PyObject *args) {
    ColumnObject *self = (ColumnObject *)object;
    PyObject *requested = NULL, *schema_capsule, *array_capsule;
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    if (!PyArg_ParseTuple(args, "|O", &requested)) return NULL;
    if (!self->column.values) {
        PyErr_SetString(PyExc_RuntimeError, "this column was taken already");
        return NULL;
    }
    schema = malloc(sizeof *schema);
    array = malloc(sizeof *array);
    if (!schema || !array || column_export(&self->column, self->is_integer, self->rows, schema, array)) {
        free(schema);
        free(array);
        return PyErr_NoMemory();
    }
    schema_capsule = PyCapsule_New(schema, "arrow_schema", schema_capsule_free);
    if (!schema_capsule) free(schema);
    array_capsule = PyCapsule_New(array, "arrow_array", array_capsule_free);
    if (!array_capsule) {
        array->release(array);
        free(array);
    }
    if (schema_capsule && array_capsule) return Py_BuildValue("NN", schema_capsule, array_capsule);
    Py_XDECREF(schema_capsule);
    Py_XDECREF(array_capsule);
    return NULL;
}

static void column_dealloc(PyObject *object) {
    ColumnObject *self = (ColumnObject *)object;
    free(self->column.values);
    free(self->column.validity);
    free_object(object);
}

static PyMethodDef COLUMN_METHODS[] = {
    { "__arrow_c_array__", column_arrow_c_array, METH_VARARGS, "The values as an Arrow array. Can be taken once." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot COLUMN_SLOTS[] = {
    { Py_tp_dealloc, column_dealloc },
    { Py_tp_methods, COLUMN_METHODS },
    { 0, NULL },
};
static PyType_Spec COLUMN_SPEC = {
    "shapescope.read._scanner.Column", sizeof(ColumnObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, COLUMN_SLOTS,
};

/* ---- Scanner --------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject *column_type;
} ModuleState;

static PyObject *scanner_object_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = { "python", "bare", "lost", NULL };
    static const char *const KEPT[] = { "none", "modules", "all" };
    const char *python;
    int bare, lost, frames = 0;
    ScannerObject *self;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "spp", names, &python, &bare, &lost)) return NULL;
    while (frames < 3 && strcmp(python, KEPT[frames])) frames++;
    if (frames == 3) {
        PyErr_Format(PyExc_ValueError, "python must be 'none', 'modules' or 'all', not '%s'", python);
        return NULL;
    }
    self = (ScannerObject *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self && !(self->scanner = scanner_new((PythonFrames)frames, bare, lost))) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void scanner_object_dealloc(PyObject *self) {
    scanner_free(((ScannerObject *)self)->scanner);
    free_object(self);
}

static int is_busy(const ScannerObject *self) {
    if (self->busy) PyErr_SetString(PyExc_RuntimeError, "another thread uses this scanner");
    return self->busy;
}

static PyObject *scanner_object_feed(PyObject *object, PyObject *args) {
    ScannerObject *self = (ScannerObject *)object;
    Py_buffer block;
    int final = 0;
    ScanState state;
    if (!PyArg_ParseTuple(args, "y*|p", &block, &final)) return NULL;
    if (is_busy(self)) {
        PyBuffer_Release(&block);
        return NULL;
    }
    self->busy = 1;
    Py_BEGIN_ALLOW_THREADS
    state = scanner_feed(self->scanner, block.buf, (size_t)block.len, final);
    Py_END_ALLOW_THREADS
    self->busy = 0;
    PyBuffer_Release(&block);
    return state == SCAN_NO_MEMORY ? PyErr_NoMemory() : PyBool_FromLong(state == SCAN_ENDED);
}

static PyObject *scanner_object_rest(PyObject *object, PyObject *unused) {
    ScannerObject *self = (ScannerObject *)object;
    size_t size;
    const uint8_t *rest;
    (void)unused;
    if (is_busy(self)) return NULL;
    rest = scanner_rest(self->scanner, &size);
    return PyBytes_FromStringAndSize((const char *)rest, (Py_ssize_t)size);
}

static PyObject *scanner_object_counts(PyObject *object, PyObject *unused) {
    ScannerObject *self = (ScannerObject *)object;
    ScanCounts counts;
    (void)unused;
    if (is_busy(self)) return NULL;
    counts = scanner_counts(self->scanner);
    return Py_BuildValue("LLLL", (long long)counts.events, (long long)counts.bytes, (long long)counts.values,
                         (long long)counts.unwanted);
}

/* The columns of a chunk by name; their memory moves to them. */
static PyObject *columns_of(Chunk *chunk, PyTypeObject *type) {
    PyObject *columns = PyDict_New();
    for (int i = 0; columns && i < COLUMNS; i++) {
        ColumnObject *object;
        if (!chunk->columns[i].values) continue;
        object = PyObject_New(ColumnObject, type);
        if (!object) {
            Py_CLEAR(columns);
            break;
        }
        object->column = chunk->columns[i];
        object->is_integer = i < INTEGERS;
        object->rows = chunk->rows;
        chunk->columns[i].values = chunk->columns[i].validity = NULL;
        if (PyDict_SetItemString(columns, COLUMN_NAMES[i], (PyObject *)object)) Py_CLEAR(columns);
        Py_DECREF(object);
    }
    return columns;
}

static PyObject *scanner_object_take(PyObject *object, PyTypeObject *defining, PyObject *const *args, Py_ssize_t count,
                                     PyObject *keywords) {
    ScannerObject *self = (ScannerObject *)object;
    ModuleState *state = PyType_GetModuleState(defining);
    PyObject *columns, *result = NULL;
    Chunk *chunk;
    (void)args, (void)count, (void)keywords;
    if (is_busy(self)) return NULL;
    chunk = rows_take(scanner_rows(self->scanner));
    if (!chunk) Py_RETURN_NONE;
    columns = columns_of(chunk, (PyTypeObject *)state->column_type);
    if (columns) result = Py_BuildValue("nN", (Py_ssize_t)chunk->rows, columns);
    chunk_free(chunk);
    return result;
}

static PyObject *scanner_object_texts(PyObject *object, PyObject *args) {
    ScannerObject *self = (ScannerObject *)object;
    Py_ssize_t first, count;
    PyObject *list;
    const Texts *texts;
    if (!PyArg_ParseTuple(args, "n", &first) || is_busy(self)) return NULL;
    texts = &scanner_rows(self->scanner)->texts;
    count = (Py_ssize_t)texts->count;
    if (first < 0 || first > count) first = count;
    list = PyList_New(count - first);
    for (Py_ssize_t i = first; list && i < count; i++) {
        int64_t begin = texts->offsets[i], end = texts->offsets[i + 1];
        PyObject *text = PyUnicode_DecodeUTF8((const char *)texts->bytes + begin, (Py_ssize_t)(end - begin), "strict");
        if (!text || PyList_SetItem(list, i - first, text)) Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef SCANNER_METHODS[] = {
    { "feed", scanner_object_feed, METH_VARARGS, "feed(block, final=False) -> whether the list of events has ended" },
    { "rest", scanner_object_rest, METH_NOARGS, "what was fed behind the end of the list" },
    { "counts", scanner_object_counts, METH_NOARGS, "(events, bytes, values) lost so far, and events not kept" },
    { "take", (PyCFunction)(void (*)(void))scanner_object_take, METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
      "the next full chunk as (rows, {name: Column}), without columns that have no value; or None" },
    { "texts", scanner_object_texts, METH_VARARGS, "texts(first) -> the texts from that number on" },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot SCANNER_SLOTS[] = {
    { Py_tp_new, scanner_object_new },
    { Py_tp_dealloc, scanner_object_dealloc },
    { Py_tp_methods, SCANNER_METHODS },
    { 0, NULL },
};
static PyType_Spec SCANNER_SPEC = {
    "shapescope.read._scanner.Scanner", sizeof(ScannerObject), 0, Py_TPFLAGS_DEFAULT, SCANNER_SLOTS,
};

/* ---- the module ---------------------------------------------------------------------------------------------------- */

static int module_exec(PyObject *module) {
    ModuleState *state = PyModule_GetState(module);
    PyObject *scanner_type = PyType_FromModuleAndSpec(module, &SCANNER_SPEC, NULL), *columns;
    int failed;
    state->column_type = PyType_FromModuleAndSpec(module, &COLUMN_SPEC, NULL);
    if (!scanner_type || !state->column_type) {
        Py_XDECREF(scanner_type);
        return -1;
    }
    failed = PyModule_AddObjectRef(module, "Scanner", scanner_type);
    Py_DECREF(scanner_type);
    columns = PyList_New(COLUMNS);
    for (int i = 0; columns && i < COLUMNS; i++) {
        PyObject *name = PyUnicode_FromString(COLUMN_NAMES[i]);
        if (!name || PyList_SetItem(columns, i, name)) Py_CLEAR(columns);
    }
    if (!columns) return -1;
    failed |= PyModule_AddObjectRef(module, "COLUMNS", columns);
    Py_DECREF(columns);
    return failed;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
    ModuleState *state = PyModule_GetState(module);
    if (state) Py_VISIT(state->column_type);
    return 0;
}

static int module_clear(PyObject *module) {
    ModuleState *state = PyModule_GetState(module);
    if (state) Py_CLEAR(state->column_type);
    return 0;
}

static PyModuleDef_Slot MODULE_SLOTS[] = { { Py_mod_exec, module_exec }, { 0, NULL } };
static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_scanner", "The compiled scanner of trace events.", sizeof(ModuleState), NULL, MODULE_SLOTS,
    module_traverse, module_clear, NULL,
};

PyMODINIT_FUNC PyInit__scanner(void) { return PyModuleDef_Init(&MODULE); }
