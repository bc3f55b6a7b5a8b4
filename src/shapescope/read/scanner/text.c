#include "text.h"

#include <stdlib.h>

#ifndef SHAPESCOPE_FIRST_SLOTS
#define SHAPESCOPE_FIRST_SLOTS (1 << 14) /* a power of two; tests build with few, to see the table grow */
#endif

static const uint8_t UNREADABLE[3] = { 0xEF, 0xBF, 0xBD }; /* U+FFFD */

int grow(void *array, size_t *size, size_t needed, size_t element) {
    size_t wanted = *size ? *size : 64;
    void *grown;
    if (needed <= *size) return 0;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 4 / element) return -1;
        wanted += wanted / 2;
    }
    grown = realloc(*(void **)array, wanted * element);
    if (!grown) return -1;
    *(void **)array = grown;
    *size = wanted;
    return 0;
}

int texts_init(Texts *texts) {
    memset(texts, 0, sizeof *texts);
    texts->mask = SHAPESCOPE_FIRST_SLOTS - 1;
    texts->slots = calloc(texts->mask + 1, sizeof *texts->slots);
    if (!texts->slots || grow(&texts->offsets, &texts->offsets_size, 1 << 12, sizeof *texts->offsets)) return -1;
    texts->offsets[0] = 0;
    return grow(&texts->bytes, &texts->bytes_size, 1 << 16, 1);
}

void texts_free(Texts *texts) {
    free(texts->slots);
    free(texts->offsets);
    free(texts->bytes);
    free(texts->has_control);
    free(texts->scratch);
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

INLINE uint64_t word_at(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

/* Two multiply-and-xor lanes, the mixing steps of MurmurHash3. Not meant to withstand an attacker: a table of texts that
 * all collide is slow, never wrong. */
static uint64_t hash_of(const uint8_t *p, size_t size) {
    const size_t whole = size;
    uint64_t a = size * 0x9E3779B97F4A7C15u, b = a ^ 0xC2B2AE3D27D4EB4Fu, last = 0;
    for (; size >= 16; p += 16, size -= 16) {
        a = (a ^ word_at(p)) * 0xff51afd7ed558ccdu;
        b = (b ^ word_at(p + 8)) * 0xc4ceb9fe1a85ec53u;
        a ^= a >> 32;
        b ^= b >> 29;
    }
    if (size >= 8) {
        a = (a ^ word_at(p)) * 0xff51afd7ed558ccdu;
        a ^= a >> 32;
        p += 8, size -= 8;
    }
    if (size && whole >= 8) last = word_at(p + size - 8); /* the last eight bytes, some of them a second time */
    else for (size_t i = 0; i < size; i++) last = last << 8 | p[i];
    a = (a ^ last ^ b) * 0xff51afd7ed558ccdu;
    a ^= a >> 32;
    a *= 0xc4ceb9fe1a85ec53u;
    return a ^ a >> 29;
}

static int double_slots(Texts *texts) {
    size_t mask = (texts->mask + 1) * 2 - 1;
    uint64_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots) return -1;
    for (size_t i = 0; i <= texts->mask; i++) {
        uint64_t entry = texts->slots[i];
        size_t at = (size_t)(entry >> 32) & mask;
        if (!entry) continue;
        while (slots[at]) at = (at + 1) & mask;
        slots[at] = entry;
    }
    free(texts->slots);
    texts->slots = slots;
    texts->mask = mask;
    return 0;
}

/* The number of a text that is valid UTF-8, or is to be looked up before that is known: then *slot is where it goes. */
static uint32_t find(const Texts *texts, const uint8_t *p, size_t size, uint64_t hash, size_t *slot) {
    size_t at = (size_t)(hash >> 32) & texts->mask;
    uint64_t entry;
    for (; (entry = texts->slots[at]); at = (at + 1) & texts->mask) {
        size_t number = (size_t)(uint32_t)entry - 1;
        int64_t begin = texts->offsets[number];
        if ((entry ^ hash) >> 32) continue;
        if ((size_t)(texts->offsets[number + 1] - begin) == size && !memcmp(texts->bytes + begin, p, size))
            return (uint32_t)number;
    }
    *slot = at;
    return NO_TEXT;
}

static int any_control_byte(const uint8_t *p, size_t size) {
    int any = 0;
    for (size_t i = 0; i < size; i++) any |= p[i] < 0x20;
    return any;
}

static uint32_t insert(Texts *texts, const uint8_t *p, size_t size, uint64_t hash, size_t slot) {
    size_t end = (size_t)texts->offsets[texts->count];
    if (texts->count >= NO_TEXT - 2 || size > SIZE_MAX / 16) return NO_TEXT;
    if (grow(&texts->bytes, &texts->bytes_size, end + size + READABLE_BEHIND, 1)) return NO_TEXT;
    if (grow(&texts->offsets, &texts->offsets_size, texts->count + 2, sizeof *texts->offsets)) return NO_TEXT;
    if (grow(&texts->has_control, &texts->has_control_size, texts->count + 1, 1)) return NO_TEXT;
    texts->has_control[texts->count] = (uint8_t)any_control_byte(p, size);
    if (size) memcpy(texts->bytes + end, p, size);
    texts->slots[slot] = (hash & 0xffffffff00000000u) | (uint32_t)(texts->count + 1);
    texts->offsets[++texts->count] = (int64_t)(end + size);
    if (texts->count * 2 > texts->mask && double_slots(texts)) return NO_TEXT;
    return (uint32_t)(texts->count - 1);
}

/* ---- what is no clean text -------------------------------------------------------------------------------------- */

/* Length of the valid UTF-8 sequence at p, or 0. */
static size_t sequence_length(const uint8_t *p, size_t size) {
    uint8_t c = p[0], second_least = 0x80, second_most = 0xBF;
    size_t length = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
    if (length > size) return 0;
    if (c == 0xE0) second_least = 0xA0; /* overlong */
    if (c == 0xED) second_most = 0x9F;  /* surrogates */
    if (c == 0xF0) second_least = 0x90; /* overlong */
    if (c == 0xF4) second_most = 0x8F;  /* beyond U+10FFFF */
    if (length > 1 && (p[1] < second_least || p[1] > second_most)) return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return length;
}

static int is_utf8(const uint8_t *p, size_t size) {
    uint8_t all = 0;
    for (size_t i = 0; i < size; i++) all |= p[i];
    if (all < 0x80) return 1;
    for (size_t at = 0, length; at < size; at += length)
        if (!(length = sequence_length(p + at, size - at))) return 0;
    return 1;
}

/* Each byte that is no part of valid UTF-8 becomes U+FFFD; `to` has room for 3 * size. */
static size_t copy_repaired(uint8_t *to, const uint8_t *from, size_t size) {
    size_t at = 0, written = 0;
    while (at < size) {
        size_t length = sequence_length(from + at, size - at);
        memcpy(to + written, length ? from + at : UNREADABLE, length ? length : 3);
        written += length ? length : 3;
        at += length ? length : 1;
    }
    return written;
}

static int hex4(const uint8_t *p) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = p[i], letter = (uint8_t)((c | 0x20) - 'a');
        int digit = (uint8_t)(c - '0') < 10 ? c - '0' : letter < 6 ? letter + 10 : -1;
        if (digit < 0) return -1;
        value = value << 4 | digit;
    }
    return value;
}

static size_t put_utf8(uint8_t *to, uint32_t c) {
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t LEAD[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = length - 1; i > 0; i--, c >>= 6) to[i] = (uint8_t)(0x80 | (c & 0x3F));
    to[0] = (uint8_t)(LEAD[length] | c);
    return length;
}

/* Never longer than it was: six bytes of \uXXXX become at most three, twelve of a pair four. */
size_t unescape(uint8_t *to, const uint8_t *from, size_t size, int *repaired) {
    static const char NAMES[] = "\"\\/bfnrt", BYTES_MEANT[] = "\"\\/\b\f\n\r\t";
    size_t at = 0, written = 0;
    while (at < size) {
        const char *name;
        int unit, second = -1;
        if (from[at] != '\\' || at + 1 >= size) {
            to[written++] = from[at++];
            continue;
        }
        if (from[at + 1] && (name = strchr(NAMES, from[at + 1]))) {
            to[written++] = (uint8_t)BYTES_MEANT[name - NAMES];
            at += 2;
            continue;
        }
        if (from[at + 1] != 'u' || at + 6 > size || (unit = hex4(from + at + 2)) < 0) {
            *repaired = 1; /* unknown: kept as written */
            to[written++] = from[at++];
            to[written++] = from[at++];
            continue;
        }
        at += 6;
        if (unit < 0xD800 || unit >= 0xE000) {
            written += put_utf8(to + written, (uint32_t)unit);
            continue;
        }
        if (unit < 0xDC00 && at + 6 <= size && from[at] == '\\' && from[at + 1] == 'u') second = hex4(from + at + 2);
        if (second >= 0xDC00 && second < 0xE000) {
            uint32_t high = (uint32_t)unit - 0xD800, low = (uint32_t)second - 0xDC00;
            written += put_utf8(to + written, 0x10000 + (high << 10) + low);
            at += 6;
        } else { /* half a pair */
            *repaired = 1;
            written += put_utf8(to + written, 0xFFFD);
        }
    }
    return written;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

static uint32_t add_text(Texts *texts, const uint8_t *p, size_t size, int *repaired) {
    uint64_t hash = hash_of(p, size);
    size_t slot = 0;
    uint32_t number = find(texts, p, size, hash, &slot);
    if (number != NO_TEXT) return number; /* what is in the table is valid, so p is */
    if (!is_utf8(p, size)) {
        uint8_t *copy = size < SIZE_MAX / 4 ? malloc(3 * size) : NULL;
        if (!copy) return NO_TEXT;
        *repaired = 1;
        number = add_text(texts, copy, copy_repaired(copy, p, size), repaired); /* valid now, so this goes no deeper */
        free(copy);
        return number;
    }
    return insert(texts, p, size, hash, slot);
}

uint32_t texts_add(Texts *texts, const uint8_t *value, size_t size, Spelling spelling, int *repaired) {
    uint32_t number;
    if (spelling == JSON_TEXT) {
        int is_minus_zero = size == 2 && value[0] == '-' && value[1] == '0';
        return add_text(texts, value + is_minus_zero, size - (size_t)is_minus_zero, repaired);
    }
    if (spelling == STRING_WITH_ESCAPES) {
        *repaired |= any_control_byte(value, size);
        if (grow(&texts->scratch, &texts->scratch_size, size, 1)) return NO_TEXT;
        size = unescape(texts->scratch, value, size, repaired);
        return add_text(texts, texts->scratch, size, repaired);
    }
    number = add_text(texts, value, size, repaired);
    if (number != NO_TEXT) *repaired |= texts->has_control[number];
    return number;
}
