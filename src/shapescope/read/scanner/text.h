/* Texts: every distinct one is kept once, as valid UTF-8, and has a number. The definition is shapescope/read/values.py. */
#ifndef SHAPESCOPE_TEXT_H
#define SHAPESCOPE_TEXT_H

#include "bytes.h"

#define NO_TEXT UINT32_MAX

typedef enum { JSON_TEXT, STRING, STRING_WITH_ESCAPES } Spelling;

typedef struct {
    uint64_t *slots; /* open addressing: upper half of a hash << 32 | number + 1; 0 is free */
    size_t mask;
    int64_t *offsets; /* count + 1 of them into bytes */
    size_t count, offsets_size;
    uint8_t *bytes;
    size_t bytes_size;
    uint8_t *has_control; /* of each text, whether there are control bytes in it */
    size_t has_control_size;
    uint8_t *scratch;
    size_t scratch_size;
} Texts;

int texts_init(Texts *texts); /* 0, or -1 without memory; texts_free is due in both cases */
void texts_free(Texts *texts);

/* The number of a value's text; NO_TEXT without memory. *repaired is set where it was not clean: control bytes, escapes
 * that JSON does not know, half a surrogate pair, bytes that are no UTF-8. */
uint32_t texts_add(Texts *texts, const uint8_t *value, size_t size, Spelling spelling, int *repaired);

/* Resolves escapes into `to`, which has room for `size` bytes; returns the length. */
size_t unescape(uint8_t *to, const uint8_t *from, size_t size, int *repaired);

/* Makes room for `needed` elements; 0, or -1 without memory. */
int grow(void *array, size_t *size, size_t needed, size_t element);

#endif
