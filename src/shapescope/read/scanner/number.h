/* Numbers: decimal text -> int64, exactly. The definition is shapescope/read/values.py. */
#ifndef SHAPESCOPE_NUMBER_H
#define SHAPESCOPE_NUMBER_H

#include "bytes.h"

#define NO_NUMBER INT64_MIN

/* Any spelling: signs, fractions, exponents. `scale` digits of the fraction count (3: us -> ns, rounded half away from
 * zero; 0: none may be left over). NO_NUMBER where it is none; then *lost is set unless the text is just no number. */
int64_t exact_number(const uint8_t *text, size_t size, int scale, int quoted, int *lost);

/* The spelling of nearly all numbers: up to 18 digits, then for times none or three decimals. Returns the length, 0 for
 * any other spelling. The text may be read for READABLE_BEHIND bytes. */
INLINE size_t plain_number(const uint8_t *text, int scale, int64_t *value) {
    size_t at = text[0] == '-', first = at;
    uint64_t number = 0;
    uint8_t digit;
    while ((digit = (uint8_t)(text[at] - '0')) < 10 && at < 19) number = number * 10 + digit, at++;
    if (at == first || at > 18) return 0;
    if (scale) {
        const uint8_t *point = text + at;
        if (number > INT64_MAX / 1000 - 1) return 0;
        number *= 1000;
        if (*point == '.') {
            uint8_t a = (uint8_t)(point[1] - '0'), b = (uint8_t)(point[2] - '0'), c = (uint8_t)(point[3] - '0');
            if (a > 9 || b > 9 || c > 9) return 0;
            number += (uint64_t)a * 100 + b * 10u + c;
            at += 4;
        }
    }
    if (!(text[at] == ',' || text[at] == '}' || is_blank(text[at]))) return 0;
    *value = first ? -(int64_t)number : (int64_t)number;
    return at;
}

#endif
