/* A streaming scanner for the events of a Chrome trace: JSON text in pieces -> typed columns. C99, knows no Python.
 *
 * What it lets through although JSON forbids it, what it refuses, and what it then counts as lost is defined by
 * shapescope/read/walker.py; both say the same about every text (tests/unit/test_readers_agree.py). */
#ifndef SHAPESCOPE_SCANNER_H
#define SHAPESCOPE_SCANNER_H

#include "rows.h"

#define LARGEST_EVENT ((size_t)16 << 20) /* bytes; what does not end within them is damage */

typedef enum { PYTHON_NONE, PYTHON_MODULES, PYTHON_ALL } PythonFrames; /* which events of python_function are kept */

typedef struct Scanner Scanner;

/* `bare`: the list is the whole document. `lost`: the text does not begin with an event. NULL without memory. */
Scanner *scanner_new(PythonFrames python, int bare, int lost);
void scanner_free(Scanner *scanner);

typedef enum { SCAN_NO_MEMORY = -1, SCAN_MORE, SCAN_ENDED } ScanState;

/* Takes the next piece of the text behind the `[` of the events; `final`: there is no more. */
ScanState scanner_feed(Scanner *scanner, const uint8_t *text, size_t size, int final);

/* Once ended: what was fed behind the end of the list. */
const uint8_t *scanner_rest(const Scanner *scanner, size_t *size);

Rows *scanner_rows(Scanner *scanner);

/* What was lost, and how many events were read but not kept, as `python` asked. */
typedef struct { int64_t events, bytes, values, unwanted; } ScanCounts;
ScanCounts scanner_counts(const Scanner *scanner);

#endif
