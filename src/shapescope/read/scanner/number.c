#include "number.h"

#define MOST_EXPONENT 100000

/* number * 10**shift; digits that fall off below are rounded half up, or forbidden where `exact`. 0 on failure. */
static int shifted(uint64_t number, int64_t shift, int exact, int cut_off, uint64_t *result) {
    for (; shift > 0 && number; shift--) {
        if (number > UINT64_MAX / 10) return 0;
        number *= 10;
    }
    if (shift < 0 && number) {
        uint64_t unit = 1, remainder;
        if (shift < -19) {
            if (exact) return 0;
            *result = 0;
            return 1;
        }
        while (shift++ < 0) unit *= 10;
        remainder = number % unit;
        number /= unit;
        cut_off |= remainder != 0;
        if (remainder && remainder >= unit - remainder) number++;
    }
    *result = number;
    return !(exact && cut_off) && number <= INT64_MAX;
}

int64_t exact_number(const uint8_t *text, size_t size, int scale, int quoted, int *lost) {
    uint64_t number = 0, result;
    int64_t shift = scale;
    size_t at = 0;
    int negative = 0, digits = 0, in_fraction = 0, cut_off = 0;
    if (at < size && (text[at] == '-' || text[at] == '+')) negative = text[at++] == '-';
    for (; at < size; at++) {
        uint8_t digit = (uint8_t)(text[at] - '0');
        if (text[at] == '.' && !in_fraction) {
            in_fraction = 1;
            continue;
        }
        if (digit > 9) break;
        digits = 1;
        if (number <= (UINT64_MAX - 9) / 10) {
            number = number * 10 + digit;
            shift -= in_fraction;
        } else { /* more digits than 64 bits hold: they no longer matter, but for the place of the point */
            cut_off |= digit != 0;
            shift += !in_fraction;
        }
    }
    if (digits && at + 1 < size && (text[at] | 0x20) == 'e') {
        int64_t exponent = 0;
        int down = 0;
        size_t first;
        at++;
        if (text[at] == '-' || text[at] == '+') down = text[at++] == '-';
        for (first = at; at < size && (uint8_t)(text[at] - '0') < 10; at++)
            if (exponent < MOST_EXPONENT) exponent = exponent * 10 + (text[at] - '0');
        if (at == first) digits = 0;
        if (exponent > MOST_EXPONENT) exponent = MOST_EXPONENT;
        shift += down ? -exponent : exponent;
    }
    if (!digits || at != size) {
        *lost = !quoted && !(size == 4 && !memcmp(text, "true", 4)) && !(size == 5 && !memcmp(text, "false", 5));
        return NO_NUMBER;
    }
    if (!shifted(number, shift, !scale, cut_off, &result)) {
        *lost = 1;
        return NO_NUMBER;
    }
    return negative ? -(int64_t)result : (int64_t)result;
}
