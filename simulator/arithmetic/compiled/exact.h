/* Products added to superaccumulators, exactly: the limbs of superaccumulator.py.
 *
 * Where the products of a case lie close enough together, each row of D is summed in two float64 parts, a high and a low one, neither of which
 * rounds; the two are then added to the limbs. Otherwise every product is added to the limbs.
 */
#ifndef TCSIM_EXACT_H
#define TCSIM_EXACT_H

#include "floats.h"

enum { MET_NAN = 1, MET_PLUS = 2, MET_MINUS = 4 };
enum { MOST_COLUMNS = 256 };  /* of D that are summed together */

/* The significand, an odd number or 0, and the place of its last bit. */
INLINE uint64_t odd_digits(double x, int32_t *place) {
    uint64_t bits = to_bits(x) & ~(1ull << 63), digits = bits & ((1ull << 52) - 1);
    int32_t field = (int32_t)(bits >> 52);
    if (field) digits |= 1ull << 52; else field = 1;
    if (!digits) { *place = 0; return 0; }
    int32_t zeros = __builtin_ctzll(digits);
    *place = field - 1075 + zeros;
    return digits >> zeros;
}

/* Adds +-digits * 2^place, which must be a multiple of 2^lowest. */
INLINE void add_digits(int64_t *limbs, int32_t lowest, uint64_t digits, int32_t place, int negative) {
    uint32_t above = (uint32_t)(place - lowest), shift = above & 31;
    int64_t *limb = limbs + (above >> 5);
    uint64_t low = (digits & 0xFFFFFFFFu) << shift, high = (digits >> 32) << shift;
    int64_t part[3] = {(int64_t)(low & 0xFFFFFFFFu), (int64_t)((low >> 32) + (high & 0xFFFFFFFFu)), (int64_t)(high >> 32)};
    for (int i = 0; i < 3; i++) limb[i] += negative ? -part[i] : part[i];
}

INLINE void add_double(int64_t *limbs, int32_t lowest, double x) {
    int32_t place;
    uint64_t digits = odd_digits(x, &place);
    if (digits) add_digits(limbs, lowest, digits, place, x < 0);
}

INLINE void add_special(uint8_t *flags, double x) { *flags |= x != x ? MET_NAN : x > 0 ? MET_PLUS : MET_MINUS; }

/* x * y, of any finite numbers: the product of their significands has up to 106 bits. */
INLINE void add_product(int64_t *limbs, uint8_t *flags, int32_t lowest, double x, double y) {
    double product = x * y;
    if (!__builtin_isfinite(x) || !__builtin_isfinite(y)) { add_special(flags, product); return; }
    int32_t place, other;
    uint64_t left = odd_digits(x, &place), right = odd_digits(y, &other);
    unsigned __int128 digits = (unsigned __int128)left * right;
    if (!digits) return;
    int negative = (x < 0) != (y < 0);
    place += other;
    add_digits(limbs, lowest, (uint64_t)digits & ((1ull << 54) - 1), place, negative);
    if (digits >> 54) add_digits(limbs, lowest, (uint64_t)(digits >> 54), place + 54, negative);
}

/* Places of the elements of a matrix: no bit lies below `last`, all lie below `top`, and no significand has more bits than `widest`. Returns 0 if an
 * element is not finite. */
INLINE int bounds(const double *x, int64_t count, int32_t *last, int32_t *top, int32_t *widest) {
    int32_t lowest = 4096, highest = -4096, most = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t place;
        if (!__builtin_isfinite(x[i])) return 0;
        uint64_t digits = odd_digits(x[i], &place);
        if (!digits) continue;
        int32_t end = place + 64 - __builtin_clzll(digits);
        lowest = place < lowest ? place : lowest;
        highest = end > highest ? end : highest;
        most = end - place > most ? end - place : most;
    }
    *last = lowest, *top = highest, *widest = most;
    return 1;
}

/* One row of D by some columns: high and low parts of the sums. `split`: 1.5 * 2^(52 + place of the high parts), or 0 for one part. */
VERSIONS static void sum_row_parts(const double *restrict a, const double *restrict b, const int32_t *restrict index, int32_t stored, int32_t n,
                                   int32_t columns, double split, double *restrict high, double *restrict low) {
    for (int32_t j = 0; j < columns; j++) high[j] = low[j] = 0;
    for (int32_t s = 0; s < stored; s++) {
        const double x = a[s], *restrict row = b + (int64_t)(index ? index[s] : s) * n;
        if (split == 0)
            for (int32_t j = 0; j < columns; j++) high[j] += x * row[j];
        else
            for (int32_t j = 0; j < columns; j++) {
                double product = x * row[j], up = (product + split) - split;
                high[j] += up;
                low[j] += product - up;
            }
    }
}

/* How the products of a case can be summed: 1 with `split` as above, or 0: one after the other. */
INLINE int plan_sums(const double *a, int64_t a_count, const double *b, int64_t b_count, int32_t stored, double *split) {
    int32_t last, top, widest, last_b, top_b, widest_b, terms = 1;
    if (!bounds(a, a_count, &last, &top, &widest) || !bounds(b, b_count, &last_b, &top_b, &widest_b)) return 0;
    *split = 0;
    if (last == 4096 || last_b == 4096) return 1;  /* zeros alone */
    while (1 << terms < stored) terms++;
    last += last_b, top += top_b;
    if (widest + widest_b > 53 || last < -900 || top > 900) return 0;  /* products that float64 does not hold */
    if (top - last + terms <= 53) return 1;
    int32_t middle = last + 52 - terms;  /* low parts are multiples of 2^last, at most 2^(middle - 1) */
    if (top - middle + terms > 52) return 0;
    *split = 1.5 * power_of_two(middle + 52);
    return 1;
}

/* All cases of a call: A [case][m][stored], B [case][k][n], `index` [case][m][stored] the row of B that each element of A meets (null: its own column),
 * `rows` [case][m][n] where each sum is in `limbs` [row][count] and `flags` [row]; a negative one is left out. */
int tcsim_accumulate(int64_t cases, int32_t m, int32_t n, int32_t k, int32_t stored, int32_t lowest, int32_t count, const double *a, const double *b,
                     const int32_t *index, const int64_t *rows, int64_t *limbs, uint8_t *flags) {
    double high[MOST_COLUMNS], low[MOST_COLUMNS], split;
    fenv_t before;
    take_default(&before);
    int64_t a_count = (int64_t)m * stored, b_count = (int64_t)k * n;
    for (int64_t i = 0; i < cases; i++, a += a_count, b += b_count, rows += (int64_t)m * n, index = index ? index + a_count : NULL) {
        int together = plan_sums(a, a_count, b, b_count, stored, &split);
        for (int32_t r = 0; r < m; r++)
            for (int32_t first = 0; first < n; first += MOST_COLUMNS) {
                int32_t columns = n - first < MOST_COLUMNS ? n - first : MOST_COLUMNS;
                const int64_t *to = rows + (int64_t)r * n + first;
                const int32_t *which = index ? index + (int64_t)r * stored : NULL;
                const double *left = a + (int64_t)r * stored, *right = b + first;
                if (together) sum_row_parts(left, right, which, stored, n, columns, split, high, low);
                for (int32_t j = 0; j < columns; j++) {
                    if (to[j] < 0) continue;
                    int64_t *sum = limbs + to[j] * count;
                    if (together) {
                        add_double(sum, lowest, high[j]);
                        add_double(sum, lowest, low[j]);
                    } else
                        for (int32_t s = 0; s < stored; s++)
                            add_product(sum, flags + to[j], lowest, left[s], right[(int64_t)(which ? which[s] : s) * n + j]);
                }
            }
    }
    give_back(&before);
    return 0;
}

#endif
