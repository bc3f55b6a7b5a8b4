/* The scanner under a fuzzer: the same text whole and in pieces must give the same rows, texts and losses.
 *
 * With clang: a libFuzzer target (make fuzz). With any compiler and -DSTANDALONE:
 *     target digest FILE..              one line a file; builds of the scanner are compared by them
 *     target mutate COUNT SEED FILE..   damaged windows of the files, each whole and in pieces
 *     target starve FILE..              every allocation fails once
 * Pieces are heap blocks of their exact size, so that the address sanitizer sees a read beyond one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scanner.h"

static uint64_t mix(uint64_t hash, const void *data, size_t size) {
    for (const uint8_t *p = data; size--; p++) hash = (hash ^ *p) * 1099511628211u;
    return hash;
}

static void require(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "broken: %s\n", what);
    abort();
}

static uint64_t mix_column(uint64_t hash, const Column *column, int index, size_t rows, size_t texts) {
    size_t filled = 0;
    if (!column->values) return mix(hash, &index, sizeof index);
    for (size_t row = 0; row < rows; row++) {
        int64_t value = index < INTEGERS ? ((int64_t *)column->values)[row] : ((uint32_t *)column->values)[row];
        int is_null = index < INTEGERS ? value == NO_NUMBER : value == NO_TEXT;
        int bit = !column->validity || (column->validity[row / 8] >> row % 8 & 1);
        require(bit == !is_null, "validity tells which values are null");
        require(is_null || index < INTEGERS || (size_t)value < texts, "texts have a number");
        filled += !is_null;
        hash = mix(hash, &value, sizeof value);
    }
    require(filled == column->filled, "filled counts the values");
    return hash;
}

static uint64_t digest(Scanner *scanner, int ended) {
    uint64_t hash = 14695981039346656037u;
    Rows *rows = scanner_rows(scanner);
    const Texts *texts = &rows->texts;
    ScanCounts losses = scanner_counts(scanner);
    size_t total = 0, rest;
    for (Chunk *chunk; (chunk = rows_take(rows)); chunk_free(chunk)) {
        for (int i = 0; i < COLUMNS; i++) hash = mix_column(hash, &chunk->columns[i], i, chunk->rows, texts->count);
        total += chunk->rows;
    }
    require(total == (size_t)rows->rows, "all rows are handed out");
    hash = mix(hash, texts->offsets, (texts->count + 1) * sizeof *texts->offsets);
    hash = mix(hash, texts->bytes, (size_t)texts->offsets[texts->count]);
    hash = mix(hash, &losses, sizeof losses);
    scanner_rest(scanner, &rest);
    return mix(mix(hash, &rest, sizeof rest), &ended, sizeof ended);
}

/* `piece`: the size of the pieces; 0 is one. */
static uint64_t scan_in_pieces(const uint8_t *text, size_t size, size_t piece, int options) {
    Scanner *scanner = scanner_new((PythonFrames)(options % 3), options / 3 % 2, options / 6 % 2);
    ScanState state = SCAN_MORE;
    uint64_t hash;
    if (!scanner) return 0;
    if (!piece) piece = size ? size : 1;
    for (size_t at = 0; at < size && state != SCAN_NO_MEMORY; at += piece) {
        size_t length = piece < size - at ? piece : size - at;
        uint8_t *copy = malloc(length);
        if (!copy) {
            scanner_free(scanner);
            return 0;
        }
        memcpy(copy, text + at, length);
        state = scanner_feed(scanner, copy, length, 0);
        free(copy);
    }
    if (state == SCAN_MORE) state = scanner_feed(scanner, (const uint8_t *)"", 0, 1);
    hash = state == SCAN_NO_MEMORY ? 0 : digest(scanner, state == SCAN_ENDED);
    scanner_free(scanner);
    return hash;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    require(scan_in_pieces(data + 2, size - 2, 0, data[0]) == scan_in_pieces(data + 2, size - 2, 1 + data[1], data[0]),
            "pieces do not matter");
    return 0;
}

#ifdef STANDALONE

static uint64_t random_state;
static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static uint8_t *read_file(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    uint8_t *text;
    require(file != NULL, name);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    text = malloc(*size + 1);
    require(text && fread(text, 1, *size, file) == *size, name);
    fclose(file);
    return text;
}

static size_t damage(uint8_t *text, size_t size, size_t room) {
    static const char BYTES[] = "\"\\{}[]:,  \n0e.-+nu\xff\xc3\x80\x01N";
    static const char *const PHRASES[] = {
        "\\u0041", "\\ud83d\\ude00", "\\ud800", "\\", "null", "1e3", "-0.0005", "99999999999999999999", "\"", "[[[[[[", "{}",
        "]", "}", "\xf0\x9f\x98\x80", "\xed\xa0\x80", ": ", ",,", "\"args\": {", "\"args\": 5, ", "\"traceEvents\": [",
        "\"cat\": \"python_function\", ", "\"name\": \"nn.Module: x\", ", "}, {\"ph\": \"X\", ", "{\"name\": ", "-0",
    };
    for (uint64_t times = next_random() % 10; times-- && size > 4;) {
        size_t at = next_random() % size, length = next_random() % 200;
        if (length > size - at) length = size - at;
        switch (next_random() % 6) {
        case 0: text[at] ^= (uint8_t)(1u << next_random() % 8); break;
        case 1: text[at] = (uint8_t)BYTES[next_random() % (sizeof BYTES - 1)]; break;
        case 2: memmove(text + at, text + at + length, size - at - length), size -= length; break;
        case 3:
            if (size + length > room) break;
            memmove(text + at + length, text + at, size - at), size += length;
            break;
        case 4: {
            const char *phrase = PHRASES[next_random() % LENGTH(PHRASES)];
            if (size + strlen(phrase) > room) break;
            memmove(text + at + strlen(phrase), text + at, size - at);
            memcpy(text + at, phrase, strlen(phrase));
            size += strlen(phrase);
            break;
        }
        default: if (next_random() % 4 == 0) size = at + 1;
        }
    }
    return size;
}

static void mutate(const uint8_t *text, size_t size) {
    size_t window = 100 + next_random() % 8000, room;
    size_t start = size > window ? next_random() % (size - window) : 0;
    int options = (int)(next_random() % 12);
    uint8_t *copy;
    if (window > size) window = size;
    room = 2 * window + 500;
    copy = malloc(room);
    memcpy(copy, text + start, window);
    window = damage(copy, window, room);
    require(scan_in_pieces(copy, window, 0, options) == scan_in_pieces(copy, window, 1 + next_random() % 3000, options),
            "pieces do not matter");
    free(copy);
}

#ifdef STARVE
/* Linked with --wrap for malloc, calloc and realloc: the allocation number `fails_at` fails. */
static uint64_t allocations, fails_at;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size) { return ++allocations == fails_at ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return ++allocations == fails_at ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) {
    return ++allocations == fails_at ? NULL : __real_realloc(memory, size);
}

static void starve(const uint8_t *text, size_t size) {
    uint64_t needed;
    fails_at = allocations = 0;
    scan_in_pieces(text, size, 5000, 2);
    needed = allocations;
    for (fails_at = 1; fails_at <= needed; fails_at++) {
        allocations = 0;
        scan_in_pieces(text, size, 5000, 2);
    }
    printf("%llu allocations failed, one at a time\n", (unsigned long long)needed);
    fails_at = 0;
}
#else
static void starve(const uint8_t *text, size_t size) {
    (void)text, (void)size;
    require(0, "built without -DSTARVE");
}
#endif

int main(int count, char **words) {
    int mutates = count > 3 && !strcmp(words[1], "mutate");
    require(count > 2, "usage: target digest FILE.. | mutate COUNT SEED FILE.. | starve FILE..");
    if (mutates) random_state = strtoull(words[3], NULL, 10) * 0x9E3779B97F4A7C15u + 1;
    for (int i = mutates ? 4 : 2; i < count; i++) {
        size_t size;
        uint8_t *text = read_file(words[i], &size);
        if (mutates) {
            for (long left = strtol(words[2], NULL, 10); left > 0; left--) mutate(text, size);
        } else if (!strcmp(words[1], "starve")) {
            starve(text, size);
        } else {
            for (int options = 0; options < 12; options++)
                printf("%016llx%c", (unsigned long long)scan_in_pieces(text, size, 0, options), options < 11 ? ' ' : '\n');
        }
        free(text);
    }
    return 0;
}

#endif
