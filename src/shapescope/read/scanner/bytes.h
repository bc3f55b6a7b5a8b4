/* Finding bytes: quotes, brackets and blanks, 16 at a time with SSE2 or NEON, else 8 at a time in plain C.
 *
 * Invariant: every text handed to these functions has READABLE_BEHIND bytes behind it that may be read (their values do
 * not matter): a block of bytes is loaded whole, and only then is it checked whether what was found lies in the text.
 */
#ifndef SHAPESCOPE_BYTES_H
#define SHAPESCOPE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define READABLE_BEHIND 64

#if defined(_MSC_VER)
#include <intrin.h>
#define INLINE static __forceinline
#define NOINLINE static __declspec(noinline)
#define LIKELY(condition) (condition)
INLINE unsigned lowest_bit(uint64_t mask) { unsigned long at; _BitScanForward64(&at, mask); return at; }
#else
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
INLINE unsigned lowest_bit(uint64_t mask) { return (unsigned)__builtin_ctzll(mask); }
#endif

/* A Mask has BITS_A_BYTE bits for each byte of a block, set (or the lowest of them set) where the byte is one looked for. */
typedef uint64_t Mask;

#if defined(SHAPESCOPE_NO_SIMD)
#define PLAIN_BYTES
#elif defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define BLOCK_BYTES 16
#define BITS_A_BYTE 1
typedef __m128i Block16;
INLINE Block16 load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }
INLINE Block16 is_byte(Block16 block, char c) { return _mm_cmpeq_epi8(block, _mm_set1_epi8(c)); }
INLINE Block16 either(Block16 a, Block16 b) { return _mm_or_si128(a, b); }
INLINE Block16 with_bits(Block16 block, char bits) { return _mm_or_si128(block, _mm_set1_epi8(bits)); }
/* Both ends are ASCII; all other bytes are negative here, and so below. */
INLINE Block16 outside(Block16 block, char first, char last) {
    return _mm_or_si128(_mm_cmplt_epi8(block, _mm_set1_epi8(first)), _mm_cmpgt_epi8(block, _mm_set1_epi8(last)));
}
INLINE Mask to_mask(Block16 matches) { return (uint32_t)_mm_movemask_epi8(matches); }
#elif defined(__aarch64__) || defined(_M_ARM64)
#include <arm_neon.h>
#define BLOCK_BYTES 16
#define BITS_A_BYTE 4
typedef uint8x16_t Block16;
INLINE Block16 load(const uint8_t *p) { return vld1q_u8(p); }
INLINE Block16 is_byte(Block16 block, char c) { return vceqq_u8(block, vdupq_n_u8((uint8_t)c)); }
INLINE Block16 either(Block16 a, Block16 b) { return vorrq_u8(a, b); }
INLINE Block16 with_bits(Block16 block, char bits) { return vorrq_u8(block, vdupq_n_u8((uint8_t)bits)); }
INLINE Block16 outside(Block16 block, char first, char last) {
    return vorrq_u8(vcltq_u8(block, vdupq_n_u8((uint8_t)first)), vcgtq_u8(block, vdupq_n_u8((uint8_t)last)));
}
INLINE Mask to_mask(Block16 matches) {
    return vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(matches), 4)), 0);
}
#else
#define PLAIN_BYTES
#endif

#ifdef PLAIN_BYTES
#define BLOCK_BYTES 8
#define BITS_A_BYTE 8
typedef uint64_t Block16;
/* The first byte in the lowest bits, whatever the machine's byte order. */
INLINE Block16 load(const uint8_t *p) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word << 8 | p[i];
    return word;
}
#define REPEATED(c) (0x0101010101010101u * (uint64_t)(uint8_t)(c))
/* 0x80 in each byte that equals c, exactly (no borrow runs from one byte into the next). */
INLINE Block16 is_byte(Block16 block, char c) {
    uint64_t x = block ^ REPEATED(c), low = REPEATED(0x7f);
    return ~(((x & low) + low) | x | low);
}
INLINE Block16 either(Block16 a, Block16 b) { return a | b; }
INLINE Block16 with_bits(Block16 block, char bits) { return block | REPEATED(bits); }
INLINE Mask to_mask(Block16 matches) { return matches; }
#endif

#define MASK_INDEX(mask) (lowest_bit(mask) / BITS_A_BYTE)
/* Without the bits of the byte found first. */
INLINE Mask without_first(Mask mask) {
    return mask & ~(((((Mask)1 << (BITS_A_BYTE - 1)) << 1) - 1) << (MASK_INDEX(mask) * BITS_A_BYTE));
}

INLINE Mask quotes_and_backslashes(const uint8_t *p) {
    Block16 block = load(p);
    return to_mask(either(is_byte(block, '"'), is_byte(block, '\\')));
}
/* [ and ] differ from { and } by one bit; no other byte becomes one of them with that bit set. */
INLINE Mask quotes_and_brackets(const uint8_t *p) {
    Block16 block = load(p), folded = with_bits(block, 0x20);
    return to_mask(either(is_byte(block, '"'), either(is_byte(folded, '{'), is_byte(folded, '}'))));
}

#ifndef PLAIN_BYTES
/* The bytes that are none of a plain decimal: no digit, sign or point. */
INLINE Mask no_decimals(const uint8_t *p) {
    Block16 block = load(p);
    return to_mask(either(outside(block, '+', '9'), either(is_byte(block, ','), is_byte(block, '/'))));
}
#endif

INLINE int is_blank(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* The first byte from `at` on that is no blank, or `size`. */
INLINE size_t skip_blanks(const uint8_t *text, size_t at, size_t size) {
    while (at < size && is_blank(text[at])) at++;
    return at;
}

/* Where the string ends whose opening quote is just before `at`: its closing quote, or a number >= size. */
INLINE size_t string_end(const uint8_t *text, size_t at, size_t size, int *has_escapes) {
    for (;;) {
        Mask found = 0;
        while (at < size && !(found = quotes_and_backslashes(text + at))) at += BLOCK_BYTES;
        if (at >= size) return size;
        at += MASK_INDEX(found);
        if (at >= size || LIKELY(text[at] == '"')) return at;
        *has_escapes = 1;
        at += 2;
    }
}

/* Whether `size` bytes are equal; both may be read for READABLE_BEHIND bytes. Most often they are, and short. */
INLINE int same_bytes(const uint8_t *a, const uint8_t *b, size_t size) {
#if !defined(PLAIN_BYTES) && BITS_A_BYTE == 1
    for (;;) {
        Mask equal = to_mask(_mm_cmpeq_epi8(load(a), load(b)));
        if (size < BLOCK_BYTES) return !(~equal & (((Mask)1 << size) - 1));
        if (equal != 0xffff) return 0;
        a += BLOCK_BYTES, b += BLOCK_BYTES, size -= BLOCK_BYTES;
        if (!size) return 1;
    }
#else
    return !memcmp(a, b, size);
#endif
}

#endif
