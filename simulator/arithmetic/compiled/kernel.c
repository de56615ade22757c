/* Tensor-core arithmetic, compiled: the same steps as fused.py, integer.py and sums.py, over fragments of many cases.
 *
 * A case's operands are unpacked once; then each row of D is computed WIDTH columns at a time, so that metadata merely choose which row of B a
 * stored element of A meets. Sums are float64 and exact for the reasons given in fused.py.
 */
#include <stdlib.h>

#include "floats.h"

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(TCSIM_PLAIN)
#define VERSIONS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VERSIONS
#endif

/* Room for one case. Matrices of A are in planes: element (row, column) is at plane(column % per), row, column / per. */
typedef struct {
    uint32_t *word, *pattern;
    double *a_value, *b_value, *c_value, *joined_value, *scale_a, *scale_b;
    int32_t *a_power, *b_power, *c_power, *joined_power, *scale_a_power, *scale_b_power;
    uint32_t *b_pattern, *d_pattern;
    int32_t *column, *code;
} Room;

static int64_t largest(int64_t x, int64_t y) { return x > y ? x : y; }

static size_t put(char *base, size_t at, void *pointer, int64_t bytes) {
    char *start = base ? base + at : NULL;
    memcpy(pointer, &start, sizeof start);
    return at + (((size_t)bytes + 127) & ~(size_t)63);
}

/* Lays the room out from `base`, or measures it (base null). */
static size_t arrange(const Plan *p, Room *r, char *base) {
    int64_t a = (int64_t)p->m * p->stored, b = (int64_t)p->k * p->n, c = (int64_t)p->m * p->n, most = largest(largest(a, b), c);
    int64_t rows = p->m, factors = p->factors ? p->factors : 1;
    size_t at = 0;
    at = put(base, at, &r->word, 4 * most);
    at = put(base, at, &r->pattern, 4 * most);
    at = put(base, at, &r->b_pattern, 4 * b);
    at = put(base, at, &r->a_value, 8 * a);
    at = put(base, at, &r->b_value, 8 * b);
    at = put(base, at, &r->c_value, 8 * c);
    at = put(base, at, &r->joined_value, 8 * (int64_t)WIDTH * p->stored);
    at = put(base, at, &r->scale_a, 8 * rows * factors);
    at = put(base, at, &r->scale_b, 8 * (int64_t)p->n * factors);
    at = put(base, at, &r->a_power, 4 * a);
    at = put(base, at, &r->b_power, 4 * b);
    at = put(base, at, &r->c_power, 4 * c);
    at = put(base, at, &r->joined_power, 4 * (int64_t)WIDTH * p->stored);
    at = put(base, at, &r->scale_a_power, 4 * rows * factors);
    at = put(base, at, &r->scale_b_power, 4 * (int64_t)p->n * factors);
    at = put(base, at, &r->d_pattern, 4 * c);
    at = put(base, at, &r->column, 4 * rows * p->stored);
    at = put(base, at, &r->code, 4 * rows * p->stored);
    return at + 64;
}

/* Words of a case in the order of the table. */
INLINE void fetch(const uint32_t *restrict from, Operand o, int64_t count, uint32_t *restrict word) {
    for (int64_t i = 0; i < count; i++) word[i] = from[o.words[i]];
}

INLINE uint32_t mask_of(int32_t bits) { return bits == 32 ? 0xFFFFFFFFu : (1u << bits) - 1; }

/* Words [count] -> patterns in planes: element i of word w is at i * count + w. */
INLINE void unpack_planes(const uint32_t *restrict word, Operand o, int64_t count, uint32_t *restrict pattern) {
    for (int32_t i = 0; i < o.per; i++)
        for (int64_t w = 0; w < count; w++) pattern[i * count + w] = word[w] >> (i * o.bits) & mask_of(o.bits);
}

/* Words [outer][n] -> patterns [outer * per + i][n]. */
INLINE void unpack_rows(const uint32_t *restrict word, Operand o, int64_t outer, int64_t n, uint32_t *restrict pattern) {
    for (int64_t w = 0; w < outer; w++)
        for (int32_t i = 0; i < o.per; i++)
            for (int64_t j = 0; j < n; j++) pattern[(w * o.per + i) * n + j] = word[w * n + j] >> (i * o.bits) & mask_of(o.bits);
}

/* Words [row][n / per] -> patterns [row][n]. */
INLINE void unpack_columns(const uint32_t *restrict word, Operand o, int64_t count, uint32_t *restrict pattern) {
    for (int64_t w = 0; w < count; w++)
        for (int32_t i = 0; i < o.per; i++) pattern[w * o.per + i] = word[w] >> (i * o.bits) & mask_of(o.bits);
}

/* For each row and stored column, in the order of summation: the row of B that it meets; for halves also the code. */
INLINE void select_columns(const Plan *p, const uint32_t *e, Room *r) {
    const int32_t chunks = p->chunk ? p->k / p->chunk : 0;
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t at = 0; at < p->stored; at++) {
            int32_t j = p->order[at], *found = &r->column[row * p->stored + at];
            if (!chunks) { *found = j; continue; }
            int32_t chunk = j / p->in_chunk, place = row * chunks + chunk;
            uint32_t code = e[p->e_words[place]] >> p->e_shifts[place] & 15;
            *found = chunk * p->chunk + p->columns[code * p->in_chunk + j % p->in_chunk];
            r->code[row * p->stored + at] = (int32_t)code;
        }
}

INLINE int64_t in_planes(const Plan *p, int32_t row, int32_t j) {
    int64_t wide = p->stored / p->a.per;
    return j % p->a.per * (p->m * wide) + row * wide + j / p->a.per;
}

/* Factors of block scales, and elements times factors where nothing is grouped. */
INLINE void read_scale(Scale s, const uint32_t *from, int64_t count, double *value, int32_t *power) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t pattern = from[s.words[i]] >> s.shifts[i] & 255;
        value[i] = s.value[pattern];
        power[i] = s.power[pattern];
    }
}

INLINE void apply_scales(const Plan *p, Room *r) {
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t j = 0; j < p->stored; j++) {
            int64_t i = in_planes(p, row, j), s = (int64_t)row * p->factors + (int64_t)j * p->factors / p->stored;
            r->a_value[i] *= r->scale_a[s];
            r->a_power[i] += r->scale_a_power[s];
        }
    for (int32_t k = 0; k < p->k; k++)
        for (int32_t n = 0; n < p->n; n++) {
            int64_t i = (int64_t)k * p->n + n, s = (int64_t)n * p->factors + (int64_t)k * p->factors / p->k;
            r->b_value[i] *= r->scale_b[s];
            r->b_power[i] += r->scale_b_power[s];
        }
}

/* One row's partners in B: pointers in the order of summation. */
typedef struct {
    const double *value;
    const int32_t *power;
    double a;
    int32_t a_power;
} Term;

/* Where a 1:2 code joins 16-bit halves of two elements, the joined elements are decoded into a place of their own. */
INLINE void join_halves(const Plan *p, Room *r, int32_t row, int32_t n0, Term *term) {
    for (int32_t at = 0; at < p->stored; at++) {
        int32_t code = r->code[row * p->stored + at];
        if (code == 4 || code == 14) continue;
        const uint32_t *b = r->b_pattern + (int64_t)p->order[at] * p->chunk * p->n + n0;
        uint32_t joined[WIDTH];
        int low = code & 3, high = code >> 2;
        for (int i = 0; i < WIDTH; i++) {
            uint32_t bottom = b[(low >> 1) * p->n + i] >> (16 * (low & 1)) & 0xFFFF;
            uint32_t top = b[(high >> 1) * p->n + i] >> (16 * (high & 1)) & 0xFFFF;
            joined[i] = bottom | top << 16;
        }
        decode_fields(joined, WIDTH, p->b_format, r->joined_value + WIDTH * at, r->joined_power + WIDTH * at);
        term[at].value = r->joined_value + WIDTH * at;
        term[at].power = r->joined_power + WIDTH * at;
    }
}

INLINE void gather_terms(const Plan *p, Room *r, int32_t row, int32_t n0, Term *term) {
    for (int32_t at = 0; at < p->stored; at++) {
        int64_t a = in_planes(p, row, p->order[at]), b = (int64_t)r->column[row * p->stored + at] * p->n + n0;
        term[at] = (Term){r->b_value + b, r->b_power + b, r->a_value[a], r->a_power[a]};
    }
    if (p->halves) join_halves(p, r, row, n0, term);
}

/* One fused step over `count` terms and C; see fused.py. */
INLINE Reals fused_step(const Plan *p, const Term *term, int32_t count, Reals c, Ints c_power) {
    Ints top = max_ints(c_power, (Ints){0} + p->floor);
    for (int32_t j = 0; j < count; j++) top = max_ints(top, load_ints(term[j].power) + term[j].a_power);
    Reals scale = powers(p->fraction - top), total = truncated(c * scale);
    for (int32_t j = 0; j < count; j++) total += truncated(load_reals(term[j].value) * term[j].a * scale);
    return total * powers(top - p->fraction);
}

/* Groups of products are added exactly, scaled, and aligned by the exponents of their scales alone; see sums.py. */
INLINE Reals grouped_step(const Plan *p, const Room *r, const Term *term, int32_t row, int32_t n0, Reals c, Ints c_power) {
    enum { MOST = 64 };
    Reals sum[MOST];
    Ints power[MOST], top = max_ints(c_power, (Ints){0} + p->floor);
    int32_t groups = p->stored / p->group;
    for (int32_t g = 0; g < groups; g++) {
        int64_t factor = (int64_t)g * p->factors / groups;
        Ints highest = (Ints){0} + 2 * NO_EXPONENT;
        Reals total = (Reals){0}, scale;
        for (int32_t j = g * p->group; j < (g + 1) * p->group; j++) {
            total += load_reals(term[j].value) * term[j].a;
            highest = max_ints(highest, load_ints(term[j].power) + term[j].a_power);
        }
        double a = r->scale_a[row * p->factors + factor];
        int32_t a_power = r->scale_a_power[row * p->factors + factor];
        for (int i = 0; i < WIDTH; i++) {
            scale[i] = r->scale_b[(n0 + i) * p->factors + factor] * a;
            power[g][i] = highest[i] > NO_EXPONENT / 2 ? r->scale_b_power[(n0 + i) * p->factors + factor] + a_power : NO_EXPONENT;
        }
        sum[g] = total * scale;
        top = max_ints(top, power[g]);
    }
    Reals scale = powers(p->fraction - top), total = truncated(c * scale);
    for (int32_t g = 0; g < groups; g++) total += truncated(sum[g] * scale);
    return total * powers(top - p->fraction);
}

/* f32 additions of exact products, one after the other. */
INLINE Reals chain_f32(const Term *term, int32_t count) {
    float total[WIDTH] = {0};
    Reals result;
    for (int32_t j = 0; j < count; j++)
        for (int i = 0; i < WIDTH; i++) total[i] += (float)(term[j].value[i] * term[j].a);
    for (int i = 0; i < WIDTH; i++) result[i] = total[i];
    return result;
}

INLINE void float_row(const Plan *p, Room *r, int32_t row, int32_t n0, Term *term) {
    int nearest = p->d_format.bits == 16;
    int64_t at = (int64_t)row * p->n + n0;
    Reals c = load_reals(r->c_value + at), total;
    Ints c_power = load_ints(r->c_power + at);
    uint32_t *pattern = r->d_pattern + at;
    gather_terms(p, r, row, n0, term);
    if (p->chained) {
        total = chain_f32(term, p->stored);
    } else if (p->group) {
        total = grouped_step(p, r, term, row, n0, c, c_power);
        encode(total, p->d_format, p->kept, nearest, pattern);
        return;
    } else {
        Reals part = p->add_last ? (Reals){0} : c;
        Ints part_power = p->add_last ? (Ints){0} + NO_EXPONENT : c_power;
        int32_t start = 0;
        total = part;
        for (int32_t s = 0; s < p->step_count; s++) {
            total = fused_step(p, term + start, p->steps[s], part, part_power);
            start += p->steps[s];
            encode(total, p->d_format, p->kept, nearest, pattern);
            if (s + 1 < p->step_count || p->add_last) {
                double value[WIDTH];
                int32_t power[WIDTH];
                decode_fields(pattern, WIDTH, p->d_format, value, power);
                part = total = load_reals(value);
                part_power = load_ints(power);
            }
        }
    }
    if (p->add_last) encode(c + total, p->d_format, p->d_format.fraction, 1, pattern);
}

INLINE void store(const Plan *p, const uint32_t *restrict pattern, uint32_t *restrict d) {
    int64_t count = (int64_t)p->m * p->n / p->d.per;
    if (p->d.per == 1) {
        for (int64_t w = 0; w < count; w++) d[p->d.words[w]] = pattern[w];
    } else {
        for (int64_t w = 0; w < count; w++) d[p->d.words[w]] = pattern[2 * w] | pattern[2 * w + 1] << 16;
    }
}

VERSIONS static void float_case(const Plan *p, Room *r, Term *term, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *e,
                                const uint32_t *scale_a, const uint32_t *scale_b, uint32_t *d) {
    int64_t a_words = (int64_t)p->m * p->stored / p->a.per, b_words = (int64_t)p->k * p->n / p->b.per, c_words = (int64_t)p->m * p->n / p->c.per;
    fetch(a, p->a, a_words, r->word);
    unpack_planes(r->word, p->a, a_words, r->pattern);
    decode_all(r->pattern, a_words * p->a.per, p->a_format, r->a_value, r->a_power);
    fetch(b, p->b, b_words, r->word);
    unpack_rows(r->word, p->b, p->k / p->b.per, p->n, r->b_pattern);
    decode_all(r->b_pattern, (int64_t)p->k * p->n, p->b_format, r->b_value, r->b_power);
    fetch(c, p->c, c_words, r->word);
    unpack_columns(r->word, p->c, c_words, r->pattern);
    decode_fields(r->pattern, (int64_t)p->m * p->n, p->c_format, r->c_value, r->c_power);
    if (p->factors) {
        read_scale(p->scale_a, scale_a, (int64_t)p->m * p->factors, r->scale_a, r->scale_a_power);
        read_scale(p->scale_b, scale_b, (int64_t)p->n * p->factors, r->scale_b, r->scale_b_power);
        if (!p->group) apply_scales(p, r);
    }
    select_columns(p, e, r);
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t n0 = 0; n0 < p->n; n0 += WIDTH) float_row(p, r, row, n0, term);
    store(p, r->d_pattern, d);
}

INLINE void extend(uint32_t *restrict pattern, int64_t count, int32_t bits, int is_signed) {
    if (!is_signed) return;
    for (int64_t i = 0; i < count; i++) pattern[i] = (uint32_t)((int32_t)(pattern[i] << (32 - bits)) >> (32 - bits));
}

VERSIONS static void integer_case(const Plan *p, Room *r, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *e, uint32_t *d) {
    int64_t a_words = (int64_t)p->m * p->stored / p->a.per, b_words = (int64_t)p->k * p->n / p->b.per;
    fetch(a, p->a, a_words, r->word);
    unpack_planes(r->word, p->a, a_words, r->pattern);
    extend(r->pattern, a_words * p->a.per, p->a.bits, p->is_signed_a);
    fetch(b, p->b, b_words, r->word);
    unpack_rows(r->word, p->b, p->k / p->b.per, p->n, r->b_pattern);
    extend(r->b_pattern, (int64_t)p->k * p->n, p->b.bits, p->is_signed_b);
    fetch(c, p->c, (int64_t)p->m * p->n, r->word);
    select_columns(p, e, r);
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t n0 = 0; n0 < p->n; n0 += WIDTH) {
            Ints total = (Ints){0};
            for (int32_t at = 0; at < p->stored; at++)
                total += load_ints((const int32_t *)r->b_pattern + (int64_t)r->column[row * p->stored + at] * p->n + n0)
                         * (int32_t)r->pattern[in_planes(p, row, p->order[at])];
            for (int i = 0; i < WIDTH; i++) {
                int64_t at = (int64_t)row * p->n + n0 + i, sum = (int64_t)total[i] + (int32_t)r->word[at];
                if (p->saturate) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
                r->d_pattern[at] = (uint32_t)sum;
            }
        }
    store(p, r->d_pattern, d);
}

#ifndef TCSIM_DIGEST
#define TCSIM_DIGEST 0
#endif

/* Of the sources; see build.py. */
int64_t tcsim_digest(void) { return TCSIM_DIGEST; }

/* All cases of a call; 0, or -1 without memory. */
int tcsim_run(const Plan *p, int64_t cases, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *e, const uint32_t *scale_a,
              const uint32_t *scale_b, uint32_t *d) {
    Room room;
    char *memory = malloc(arrange(p, &room, NULL) + sizeof(Term) * (size_t)p->stored + 128);
    if (!memory) return -1;
    char *base = memory + (64 - (uintptr_t)memory % 64);
    Term *term = (Term *)(base + ((arrange(p, &room, base) + 63) & ~(size_t)63));
    for (int64_t i = 0; i < cases; i++) {
        const uint32_t *code = e ? e + i * p->e_stride : NULL, *left = scale_a ? scale_a + i * p->scale_a.stride : NULL;
        const uint32_t *right = scale_b ? scale_b + i * p->scale_b.stride : NULL;
        if (p->a_format.bits)
            float_case(p, &room, term, a + i * p->a.stride, b + i * p->b.stride, c + i * p->c.stride, code, left, right, d + i * p->d.stride);
        else
            integer_case(p, &room, a + i * p->a.stride, b + i * p->b.stride, c + i * p->c.stride, code, d + i * p->d.stride);
    }
    free(memory);
    return 0;
}

/* f64: fused multiply-adds over ascending columns, from C. Matrices a [case][m][k], b [case][k][n], c and d [case][m][n]. */
VERSIONS void tcsim_chain_f64(int64_t cases, int32_t m, int32_t n, int32_t k, const double *a, const double *b, const double *c, double *d) {
    for (int64_t i = 0; i < cases; i++, a += m * k, b += k * n, c += m * n, d += m * n)
        for (int32_t row = 0; row < m; row++)
            for (int32_t column = 0; column < n; column++) {
                double total = c[row * n + column];
                for (int32_t j = 0; j < k; j++) total = __builtin_fma(a[row * k + j], b[j * n + column], total);
                d[row * n + column] = total;
            }
}
