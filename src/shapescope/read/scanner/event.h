/* Reading one event: an object whose fields go to columns, with one object `args` in it whose fields do too.
 *
 * Traces say the same over and over: the bytes between one value and the next (`, "cat": `) depend, nearly always, only on
 * which field came before. So for each field the last such stretches are remembered with what they led to, and are then
 * compared instead of parsed. What a stretch leads to is a function of its bytes and of whether it begins in args:
 * only such stretches are remembered. Built with SHAPESCOPE_NO_MEMORY nothing is, and the results are the same.
 */
#ifndef SHAPESCOPE_EVENT_H
#define SHAPESCOPE_EVENT_H

#include "scanner.h"

/* Results instead of an index into the text. */
#define MORE SIZE_MAX      /* the text ends within the event */
#define BAD (SIZE_MAX - 1) /* this is no event */
#define IS_INDEX(at) ((at) < BAD)

#define LONGEST_STRETCH 48 /* at most READABLE_BEHIND */

typedef enum { TO_EVENT_VALUE, TO_ARGS_VALUE, TO_END } Target;

/* What the bytes from behind a value to the next value, or to the end of the event, lead to. */
typedef struct {
    uint8_t length; /* 0: not to be remembered */
    uint8_t target; /* a Target */
    uint8_t column; /* the column of the field that follows, OTHER_FIELD or ARGS_FIELD */
    uint8_t slot;   /* where stretches that follow that field are remembered */
    uint8_t begins_args;
    uint8_t brace; /* of the stretch before the first field of an event: the place of its `{` */
    uint8_t bytes[LONGEST_STRETCH];
} Stretch;

#define HASHED_SLOTS 32
#define SLOTS (COLUMNS + 2 + HASHED_SLOTS)

typedef struct {
    Stretch first;          /* from behind one event to the first value of the next */
    Stretch after[SLOTS][2]; /* the two latest, newest first */
    PythonFrames python;
} EventReader;

/* From behind `{` to the first value; fills `to`. Returns the index of that value, MORE or BAD. */
size_t read_first_key(const uint8_t *text, size_t at, size_t size, Stretch *to);

/* From the first value to behind the event's `}`; fills `row`. *unwanted is set, and the row unfinished, for Python frames
 * that are not kept; while `keep_all` none is. Returns the index behind the event, MORE or BAD. */
size_t read_event(EventReader *reader, const uint8_t *text, size_t at, size_t size, const Stretch *first, int keep_all,
                  Row *row, int *unwanted);

/* Whether a finished row is a Python frame that is not kept. */
int is_unwanted(const EventReader *reader, const Row *row);

INLINE int is_remembered(const Stretch *stretch, const uint8_t *text, size_t at, size_t size) {
#ifdef SHAPESCOPE_NO_MEMORY
    (void)stretch, (void)text, (void)at, (void)size;
    return 0;
#else
    return stretch->length && stretch->length <= size - at && same_bytes(text + at, stretch->bytes, stretch->length);
#endif
}

#endif
