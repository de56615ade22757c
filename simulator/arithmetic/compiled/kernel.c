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

#include "exact.h"

/* Room for one case. Matrices are row-major. */
typedef struct {
    uint32_t *word, *pattern;
    float *a_number, *b_number;
    double *a_value, *b_value, *c_value, *scale_a, *scale_b;
    int32_t *a_power, *b_power, *c_power, *scale_a_power, *scale_b_power;
    uint32_t *b_pattern, *d_pattern;
    int32_t *b_index, *code;
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
    int64_t rows = p->m, factors = p->factors ? p->factors : 1, joined = p->halves ? (int64_t)WIDTH * p->stored : 0;
    size_t at = 0;
    at = put(base, at, &r->word, 4 * most);
    at = put(base, at, &r->pattern, 4 * most);
    at = put(base, at, &r->b_pattern, 4 * b);
    at = put(base, at, &r->a_number, 4 * a);
    at = put(base, at, &r->b_number, 4 * b);
    at = put(base, at, &r->a_value, 8 * a);
    at = put(base, at, &r->b_value, 8 * (b + joined));
    at = put(base, at, &r->c_value, 8 * c);
    at = put(base, at, &r->scale_a, 8 * rows * factors);
    at = put(base, at, &r->scale_b, 8 * (int64_t)p->n * factors);
    at = put(base, at, &r->a_power, 4 * a);
    at = put(base, at, &r->b_power, 4 * (b + joined));
    at = put(base, at, &r->c_power, 4 * c);
    at = put(base, at, &r->scale_a_power, 4 * rows * factors);
    at = put(base, at, &r->scale_b_power, 4 * (int64_t)p->n * factors);
    at = put(base, at, &r->d_pattern, 4 * c);
    at = put(base, at, &r->b_index, 4 * rows * p->stored);
    at = put(base, at, &r->code, 4 * rows * p->stored);
    return at + 64;
}

/* Words of a case in the order of the table. */
INLINE void fetch(const uint32_t *restrict from, Operand o, int64_t count, uint32_t *restrict word) {
    if (o.run == 4)
        for (int64_t i = 0; i < count; i += 4) memcpy(word + i, from + o.words[i], 16);
    else
        for (int64_t i = 0; i < count; i++) word[i] = from[o.words[i]];
}

/* The inverse. */
INLINE void store(const uint32_t *restrict word, Operand o, int64_t count, uint32_t *restrict to) {
    if (o.run == 4)
        for (int64_t i = 0; i < count; i += 4) memcpy(to + o.words[i], word + i, 16);
    else
        for (int64_t i = 0; i < count; i++) to[o.words[i]] = word[i];
}

INLINE uint32_t mask_of(int32_t bits) { return bits == 32 ? 0xFFFFFFFFu : (1u << bits) - 1; }

/* Words [row][column / per] -> patterns [row][column]; the machine keeps the low bytes of a word first. */
INLINE void unpack_columns(const uint32_t *restrict word, Operand o, int64_t count, uint32_t *restrict pattern) {
    const uint16_t *halves = (const uint16_t *)word;
    const uint8_t *bytes = (const uint8_t *)word;
    if (o.per == 1) for (int64_t i = 0; i < count; i++) pattern[i] = word[i] & mask_of(o.bits);
    else if (o.per == 2) for (int64_t i = 0; i < 2 * count; i++) pattern[i] = halves[i];
    else if (o.per == 4) for (int64_t i = 0; i < 4 * count; i++) pattern[i] = bytes[i];
    else for (int64_t i = 0; i < 4 * count; i++) { pattern[2 * i] = bytes[i] & 15; pattern[2 * i + 1] = bytes[i] >> 4; }
}

/* Words [outer][n] -> patterns [outer * per + i][n]. */
INLINE void unpack_rows(const uint32_t *restrict word, Operand o, int64_t outer, int64_t n, uint32_t *restrict pattern) {
    uint32_t mask = mask_of(o.bits);
    for (int64_t w = 0; w < outer; w++)
        for (int32_t i = 0; i < o.per; i++)
            for (int64_t n0 = 0; n0 < n; n0 += WIDTH) {
                const uint32_t *from = word + w * n + n0;
                uint32_t *to = pattern + (w * o.per + i) * n + n0;
                for (int j = 0; j < WIDTH; j++) to[j] = from[j] >> (i * o.bits) & mask;
            }
}

/* `in_chunk` places of every chunk: where the chunk starts plus what its code says. Two places are added as one number; they do not carry. */
INLINE void select_chunks(const Plan *p, const uint32_t *restrict e, int32_t *restrict found, int32_t in_chunk) {
    const int32_t *restrict words = p->e_words, *restrict shifts = p->e_shifts;
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t q = 0; q < p->chunks; q++, words++, shifts++) {
            uint32_t code = e[*words] >> *shifts & 15;
            const int32_t *place = p->place + code * in_chunk, *start = p->b_start + q * in_chunk;
            for (int32_t s = 0; s < in_chunk; s += 2, found += 2) {
                uint64_t x, y;
                memcpy(&x, place + s, 8);
                memcpy(&y, start + s, 8);
                x += y;
                memcpy(found, &x, 8);
            }
        }
}

/* The same where many indices lie in one word, one after the other: WIDTH at a time. `b_start` says where unit 0 of each element's chunk is. */
INLINE void select_runs(const Plan *p, const uint32_t *restrict e, int32_t *restrict found) {
    int32_t runs = p->stored / p->run;
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t r = 0; r < runs; r++) {
            uint32_t word = e[p->run_words[row * runs + r]] >> p->run_shifts[row * runs + r];
            for (int32_t t = 0; t < p->run; t += WIDTH, found += WIDTH)
                for (int i = 0; i < WIDTH; i++)
                    found[i] = p->b_start[r * p->run + t + i] + (int32_t)(word >> p->index_shifts[t + i] & 3) * p->unit;
        }
}

/* For 1:2: one place of every chunk, and its code. */
INLINE void select_one(const Plan *p, const uint32_t *restrict e, int32_t *restrict code, int32_t *restrict found) {
    for (int32_t i = 0; i < p->m * p->chunks; i++) code[i] = (int32_t)(e[p->e_words[i]] >> p->e_shifts[i] & 15);
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t q = 0; q < p->chunks; q++) *found++ = p->b_start[q] + p->place[*code++];
}

/* For each row and stored column, in the order of summation: where the row of B that it meets starts. Not as vectors: collecting words into one is
 * slower than the words. */
static __attribute__((noinline, optimize("no-tree-vectorize"))) void select_rows(const Plan *p, const uint32_t *restrict e, int32_t *restrict code, int32_t *restrict found) {
    if (!p->chunks)
        for (int32_t row = 0; row < p->m; row++) memcpy(found + row * p->stored, p->b_start, 4 * (size_t)p->stored);
    else if (p->in_chunk == 1) select_one(p, e, code, found);
    else if (p->in_chunk == 2) select_chunks(p, e, found, 2);
    else select_chunks(p, e, found, 4);
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
    int32_t stored = p->stored / p->factors, rows = p->k / p->factors;  /* that share a factor */
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t f = 0; f < p->factors; f++)
            for (int32_t j = 0; j < stored; j++) {
                int32_t at = row * p->stored + f * stored + j;
                r->a_value[at] *= r->scale_a[row * p->factors + f];
                r->a_power[at] += r->scale_a_power[row * p->factors + f];
            }
    for (int32_t k = 0; k < p->k; k++)
        for (int32_t n = 0; n < p->n; n++) {
            r->b_value[k * p->n + n] *= r->scale_b[n * p->factors + k / rows];
            r->b_power[k * p->n + n] += r->scale_b_power[n * p->factors + k / rows];
        }
}

/* One row of A and what it meets, in the order of summation. */
typedef struct {
    const double *a_value, *b_value;    /* element t: a_value[a_index[t]], WIDTH elements from b_value[b_index[t]] */
    const int32_t *a_power, *b_power, *a_index, *b_index;
} Row;

INLINE Reals product(const Row *r, int32_t t) { return load_reals(r->b_value + r->b_index[t]) * r->a_value[r->a_index[t]]; }
INLINE Ints product_power(const Row *r, int32_t t) { return load_ints(r->b_power + r->b_index[t]) + r->a_power[r->a_index[t]]; }

/* Where a 1:2 code joins 16-bit halves of two elements, the row meets decoded joins, kept at the end of B, instead. */
INLINE void join_halves(const Plan *p, Room *r, const int32_t *code, int32_t n0, int32_t *b_index) {
    for (int32_t t = 0; t < p->stored; t++) {
        if (code[t] == 4 || code[t] == 14) continue;
        const uint32_t *b = r->b_pattern + p->b_start[t] + n0;
        uint32_t joined[WIDTH];
        int low = code[t] & 3, high = code[t] >> 2;
        for (int i = 0; i < WIDTH; i++) {
            uint32_t bottom = b[(low >> 1) * p->n + i] >> (16 * (low & 1)) & 0xFFFF;
            uint32_t top = b[(high >> 1) * p->n + i] >> (16 * (high & 1)) & 0xFFFF;
            joined[i] = bottom | top << 16;
        }
        int32_t at = p->k * p->n + t * WIDTH;
        decode_fields(joined, WIDTH, p->b_format, r->b_value + at, r->b_power + at);
        b_index[t] = at - n0;
    }
}

/* One fused step over terms from .. to - 1 and C; see fused.py. Sums are exact, so two of them can run side by side. */
INLINE Reals fused_step(const Plan *p, const Row *r, int32_t from, int32_t to, Reals c, Ints c_power) {
    Ints top = max_ints(c_power, (Ints){0} + p->floor), other = top;
    int32_t t = from;
    for (; t + 1 < to; t += 2) {
        top = max_ints(top, product_power(r, t));
        other = max_ints(other, product_power(r, t + 1));
    }
    if (t < to) top = max_ints(top, product_power(r, t));
    top = max_ints(top, other);
    Reals scale = powers(p->fraction - top), total = truncated(c * scale), second = (Reals){0};
    for (t = from; t + 1 < to; t += 2) {
        total += truncated(product(r, t) * scale);
        second += truncated(product(r, t + 1) * scale);
    }
    if (t < to) total += truncated(product(r, t) * scale);
    return (total + second) * powers(top - p->fraction);
}

/* Groups of products are added exactly, scaled, and aligned by the exponents of their scales alone; see sums.py. */
INLINE Reals grouped_step(const Plan *p, const Room *r, const Row *terms, int32_t row, int32_t n0, Reals c, Ints c_power) {
    Reals sum[MOST_GROUPS];
    Ints power[MOST_GROUPS], top = max_ints(c_power, (Ints){0} + p->floor);
    int32_t groups = p->stored / p->group;
    for (int32_t g = 0; g < groups; g++) {
        int64_t factor = (int64_t)g * p->factors / groups;
        Ints highest = (Ints){0} + 2 * NO_EXPONENT;
        Reals total = (Reals){0}, scale;
        for (int32_t t = g * p->group; t < (g + 1) * p->group; t++) {
            total += product(terms, t);
            highest = max_ints(highest, product_power(terms, t));
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

/* Multiply-adds of f32 whose products are exact, so that adding in f64 and rounding to f32 is one rounding; see chain.py. */
INLINE Reals add_f32(Reals x, Reals y) { return __builtin_convertvector(__builtin_convertvector(x + y, Floats), Reals); }

INLINE void chained(const Plan *p, const Row *r, Reals c, uint32_t *restrict pattern) {
    if (p->d_format.bits == 32) {
        Reals total = (Reals){0};
        for (int32_t t = 0; t < p->stored; t++) total = add_f32(total, product(r, t));
        encode(c + total, p->d_format, p->d_format.fraction, 1, pattern);
        return;
    }
    Reals total = c;
    for (int32_t t = 0; t < p->stored; t += 2) total = add_f32(total, add_f32(product(r, t), product(r, t + 1)));
    encode(total, p->d_format, p->d_format.fraction, 1, pattern);
    for (int i = 0; i < WIDTH; i++) pattern[i] |= (uint32_t)(pattern[i] == 0 && to_bits(total[i]) >> 63) << 15;
}

INLINE void float_row(const Plan *p, Room *r, int32_t row, int32_t n0) {
    int nearest = p->d_format.bits == 16;
    int64_t at = (int64_t)row * p->n + n0;
    Reals c = load_reals(r->c_value + at), total;
    Ints c_power = load_ints(r->c_power + at);
    uint32_t *pattern = r->d_pattern + at;
    int32_t *b_index = r->b_index + row * p->stored, first = row * p->stored;
    if (p->halves) join_halves(p, r, r->code + row * p->stored, n0, b_index);
    Row terms = {r->a_value + first, r->b_value + n0, r->a_power + first, r->b_power + n0, p->a_index, b_index};
    if (p->chained) {
        chained(p, &terms, c, pattern);
    } else if (p->group) {
        encode(grouped_step(p, r, &terms, row, n0, c, c_power), p->d_format, p->kept, nearest, pattern);
    } else {
        Reals part = p->add_last ? (Reals){0} : c;
        Ints part_power = p->add_last ? (Ints){0} + NO_EXPONENT : c_power;
        int32_t start = 0;
        total = part;
        for (int32_t s = 0; s < p->step_count; s++) {
            total = fused_step(p, &terms, start, start + p->steps[s], part, part_power);
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
        if (p->add_last) encode(c + total, p->d_format, p->d_format.fraction, 1, pattern);
    }
}

INLINE void store_patterns(const Plan *p, Room *r, uint32_t *restrict d) {
    int64_t count = (int64_t)p->m * p->n / p->d.per;
    if (p->d.per == 2)
        for (int64_t w = 0; w < count; w++) r->word[w] = r->d_pattern[2 * w] | r->d_pattern[2 * w + 1] << 16;
    store(p->d.per == 2 ? r->word : r->d_pattern, p->d, count, d);
}

VERSIONS static void float_case(const Plan *p, Room *r, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *e,
                                const uint32_t *scale_a, const uint32_t *scale_b, uint32_t *d) {
    int64_t a_words = (int64_t)p->m * p->stored / p->a.per, b_words = (int64_t)p->k * p->n / p->b.per, c_words = (int64_t)p->m * p->n / p->c.per;
    fetch(a, p->a, a_words, r->word);
    unpack_columns(r->word, p->a, a_words, r->pattern);
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
    if (p->run) select_runs(p, e, r->b_index);
    else select_rows(p, e, r->code, r->b_index);
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t n0 = 0; n0 < p->n; n0 += WIDTH) float_row(p, r, row, n0);
    store_patterns(p, r, d);
}

/* Products of integers of at most 8 bits that are summed in f32 at a time: 256 * 255 * 255 is below 2^24, so that every sum of them is exact. */
enum { EXACT_PRODUCTS = 256 };

/* Element i of a word as a number. */
INLINE float number(uint32_t word, int32_t i, int32_t bits, int is_signed) {
    uint32_t top = word << (32 - bits * (i + 1));
    return (float)(is_signed ? (int32_t)top >> (32 - bits) : (int32_t)(top >> (32 - bits)));
}

/* Words [row][column / per] -> numbers [row][column]. */
INLINE void column_numbers(const uint32_t *restrict word, Operand o, int is_signed, int64_t count, float *restrict to) {
    const int8_t *bytes = (const int8_t *)word;
    if (o.per == 1) for (int64_t i = 0; i < count; i++) to[i] = number(word[i], 0, o.bits, is_signed);
    else if (o.bits == 8 && is_signed) for (int64_t i = 0; i < 4 * count; i++) to[i] = (float)bytes[i];
    else if (o.bits == 8) for (int64_t i = 0; i < 4 * count; i++) to[i] = (float)(uint8_t)bytes[i];
    else for (int64_t i = 0; i < 4 * count; i++) {
        to[2 * i] = number((uint8_t)bytes[i], 0, 4, is_signed);
        to[2 * i + 1] = number((uint8_t)bytes[i], 1, 4, is_signed);
    }
}

/* Words [outer][n] -> numbers [outer * per + i][n]. */
INLINE void row_numbers(const uint32_t *restrict word, Operand o, int is_signed, int64_t outer, int64_t n, float *restrict to) {
    for (int64_t w = 0; w < outer; w++)
        for (int32_t i = 0; i < o.per; i++)
            for (int64_t n0 = 0; n0 < n; n0 += WIDTH)
                for (int j = 0; j < WIDTH; j++) to[(w * o.per + i) * n + n0 + j] = number(word[w * n + n0 + j], i, o.bits, is_signed);
}

INLINE Floats load_floats(const float *p) { Floats v; memcpy(&v, p, sizeof v); return v; }

typedef uint32_t Words __attribute__((vector_size(4 * WIDTH)));

INLINE Words whole(Floats sum) { return (Words)__builtin_convertvector(sum, Ints); }

/* Sums of `rows` rows of a dense product, side by side, over k from `first` to before `last`: a [row][stored], b [k][n] from a column on. */
INLINE void dense_rows(const Plan *p, const float *a, const float *b, int rows, int32_t first, int32_t last, Floats *total) {
    Floats sum[WIDTH] = {{0}};
    for (int32_t k = first; k < last; k++) {
        Floats partner = load_floats(b + (int64_t)k * p->n);
        for (int row = 0; row < rows; row++) sum[row] += partner * a[row * p->stored + k];
    }
    for (int row = 0; row < rows; row++) total[row] = sum[row];
}

INLINE Floats sparse_row(const float *a, const float *b, const int32_t *b_index, int32_t first, int32_t last) {
    Floats sum = {0}, second = {0};
    for (int32_t t = first; t < last; t += 2) {
        sum += load_floats(b + b_index[t]) * a[t];
        second += load_floats(b + b_index[t + 1]) * a[t + 1];
    }
    return sum + second;
}

INLINE void add_c(const Plan *p, Words total, const uint32_t *restrict c, uint32_t *restrict d) {
    Words addend, result;
    memcpy(&addend, c, sizeof addend);
    result = addend + total;
    if (p->saturate) {
        Words overflow = (Words)((Ints)((addend ^ result) & (total ^ result)) >> 31), limit = (addend >> 31) + INT32_MAX;
        result = (overflow & limit) | (~overflow & result);
    }
    memcpy(d, &result, sizeof result);
}

VERSIONS static void integer_case(const Plan *p, Room *r, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *e, uint32_t *d) {
    int64_t a_words = (int64_t)p->m * p->stored / p->a.per, b_words = (int64_t)p->k * p->n / p->b.per;
    fetch(a, p->a, a_words, r->word);
    column_numbers(r->word, p->a, p->is_signed_a, a_words, r->a_number);
    fetch(b, p->b, b_words, r->word);
    row_numbers(r->word, p->b, p->is_signed_b, p->k / p->b.per, p->n, r->b_number);
    fetch(c, p->c, (int64_t)p->m * p->n, r->word);
    if (p->run) select_runs(p, e, r->b_index);
    else if (p->chunks) select_rows(p, e, r->code, r->b_index);
    for (int32_t n0 = 0; n0 < p->n; n0 += WIDTH)
        for (int32_t row = 0; row < p->m; row += WIDTH) {
            Floats sum[WIDTH];
            Words total[WIDTH] = {{0}};
            int32_t rows = p->m - row < WIDTH ? p->m - row : WIDTH;
            const float *left = r->a_number + row * p->stored, *right = r->b_number + n0;
            for (int32_t first = 0; first < p->stored; first += EXACT_PRODUCTS) {
                int32_t last = p->stored - first < EXACT_PRODUCTS ? p->stored : first + EXACT_PRODUCTS;
                if (p->chunks)
                    for (int i = 0; i < rows; i++) sum[i] = sparse_row(left + i * p->stored, right, r->b_index + (row + i) * p->stored, first, last);
                else if (rows == WIDTH)
                    dense_rows(p, left, right, WIDTH, first, last, sum);
                else
                    dense_rows(p, left, right, rows, first, last, sum);
                for (int i = 0; i < rows; i++) total[i] += whole(sum[i]);
            }
            for (int i = 0; i < rows; i++) add_c(p, total[i], r->word + (row + i) * p->n + n0, r->d_pattern + (row + i) * p->n + n0);
        }
    store_patterns(p, r, d);
}

#ifndef TCSIM_DIGEST
#define TCSIM_DIGEST 0
#endif

/* Of the sources; see build.py. */
int64_t tcsim_digest(void) { return TCSIM_DIGEST; }

/* b1: ones of A and B joined, counted. Words of A [row][k / 32], of B [k / 32][n]. */
VERSIONS static void bit_case(const Plan *p, Room *r, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t *d) {
    int32_t deep = p->k / 32;
    fetch(a, p->a, (int64_t)p->m * deep, r->word);
    fetch(b, p->b, (int64_t)deep * p->n, r->b_pattern);
    fetch(c, p->c, (int64_t)p->m * p->n, r->pattern);
    for (int32_t row = 0; row < p->m; row++)
        for (int32_t j = 0; j < p->n; j++) {
            uint32_t total = r->pattern[row * p->n + j];
            for (int32_t k = 0; k < deep; k++) {
                uint32_t x = r->word[row * deep + k], y = r->b_pattern[k * p->n + j];
                total += (uint32_t)__builtin_popcount(p->exclusive ? x ^ y : x & y);
            }
            r->d_pattern[row * p->n + j] = total;
        }
    store_patterns(p, r, d);
}

/* All cases of a call; 0, or -1 without memory. */
int tcsim_run(const Plan *p, int64_t cases, const uint32_t *a, const uint32_t *b, const uint32_t *c, const uint32_t *e, const uint32_t *scale_a,
              const uint32_t *scale_b, uint32_t *d) {
    Room room;
    char *memory = malloc(arrange(p, &room, NULL) + 64);
    if (!memory) return -1;
    arrange(p, &room, memory + (64 - (uintptr_t)memory % 64));
    fenv_t before;
    take_default(&before);
    for (int64_t i = 0; i < cases; i++) {
        const uint32_t *code = e ? e + i * p->e_stride : NULL, *left = scale_a ? scale_a + i * p->scale_a.stride : NULL;
        const uint32_t *right = scale_b ? scale_b + i * p->scale_b.stride : NULL;
        if (p->a_format.bits)
            float_case(p, &room, a + i * p->a.stride, b + i * p->b.stride, c + i * p->c.stride, code, left, right, d + i * p->d.stride);
        else if (p->a.bits == 1 && p->a.per == 32)
            bit_case(p, &room, a + i * p->a.stride, b + i * p->b.stride, c + i * p->c.stride, d + i * p->d.stride);
        else
            integer_case(p, &room, a + i * p->a.stride, b + i * p->b.stride, c + i * p->c.stride, code, d + i * p->d.stride);
    }
    give_back(&before);
    free(memory);
    return 0;
}

/* A chain that met a NaN, with the chip's rules for signs and payloads; f64 patterns. */
static uint64_t chain_with_nan(const double *a, const double *b, int32_t n, int32_t k, double c) {
    const uint64_t quiet = 1ull << 51;
    uint64_t total = to_bits(c);
    for (int32_t j = 0; j < k; j++, a++, b += n) {
        double sum = from_bits(total);
        if (*b != *b) total = to_bits(*b) | quiet;
        else if (sum != sum) total |= quiet;
        else if (*a != *a) total = to_bits(*a) | quiet;
        else {
            sum = __builtin_fma(*a, *b, sum);
            total = sum != sum ? 0xFFF8ull << 48 : to_bits(sum);
        }
    }
    return total;
}

INLINE Reals multiply_add(Reals x, double y, Reals z) {
    for (int i = 0; i < WIDTH; i++) z[i] = __builtin_fma(y, x[i], z[i]);
    return z;
}

enum { ROWS = 4 };  /* chains side by side: each waits for its last addition */

VERSIONS static void chain_case(int32_t m, int32_t n, int32_t k, const double *restrict a, const double *restrict b, const double *restrict c,
                                double *restrict d) {
    for (int32_t row = 0; row < m; row += ROWS)
        for (int32_t n0 = 0; n0 < n; n0 += WIDTH) {
            Reals total[ROWS];
            int32_t rows = m - row < ROWS ? m - row : ROWS;
            for (int r = 0; r < rows; r++) total[r] = load_reals(c + (row + r) * n + n0);
            if (rows == ROWS)
                for (int32_t j = 0; j < k; j++) {
                    Reals partner = load_reals(b + j * n + n0);
                    for (int r = 0; r < ROWS; r++) total[r] = multiply_add(partner, a[(row + r) * k + j], total[r]);
                }
            else
                for (int r = 0; r < rows; r++)
                    for (int32_t j = 0; j < k; j++) total[r] = multiply_add(load_reals(b + j * n + n0), a[(row + r) * k + j], total[r]);
            for (int r = 0; r < rows; r++) {
                int unordered = 0;
                for (int i = 0; i < WIDTH; i++) unordered |= total[r][i] != total[r][i];
                if (unordered)
                    for (int i = 0; i < WIDTH; i++)
                        if (total[r][i] != total[r][i])
                            total[r][i] = from_bits(chain_with_nan(a + (row + r) * k, b + n0 + i, n, k, c[(row + r) * n + n0 + i]));
                memcpy(d + (row + r) * n + n0, &total[r], sizeof total[r]);
            }
        }
}

/* `run` (1 or 4) words of the table follow one another in memory, too. */
INLINE void pick(const double *restrict from, const int32_t *restrict table, int32_t run, int32_t count, double *restrict to) {
    if (run == 4)
        for (int32_t i = 0; i < count; i += 4) memcpy(to + i, from + table[i], 32);
    else
        for (int32_t i = 0; i < count; i++) to[i] = from[table[i]];
}

INLINE void put_back(const double *restrict from, const int32_t *restrict table, int32_t run, int32_t count, double *restrict to) {
    if (run == 4)
        for (int32_t i = 0; i < count; i += 4) memcpy(to + table[i], from + i, 32);
    else
        for (int32_t i = 0; i < count; i++) to[table[i]] = from[i];
}

/* f64: fused multiply-adds over ascending columns, from C; n is a multiple of WIDTH. Tables say where the elements of a [m][k], b [k][n], c and d
 * [m][n] are among the 64-bit words of a case. rounding: to nearest even, toward zero, down, up. Returns 0, or -1 without memory. */
int tcsim_chain_f64(int64_t cases, int32_t m, int32_t n, int32_t k, int32_t a_run, int32_t b_run, int32_t d_run, int32_t rounding, const int32_t *a_table, const int32_t *b_table,
                    const int32_t *d_table, const double *a, const double *b, const double *c, double *d) {
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    double *room = malloc(sizeof(double) * (size_t)(m * k + k * n + 2 * m * n));
    if (!room) return -1;
    double *left = room, *right = left + m * k, *addend = right + k * n, *sum = addend + m * n;
    fenv_t before;
    take_default(&before);
    fesetround(modes[rounding]);
    for (int64_t i = 0; i < cases; i++, a += m * k, b += k * n, c += m * n, d += m * n) {
        pick(a, a_table, a_run, m * k, left);
        pick(b, b_table, b_run, k * n, right);
        pick(c, d_table, d_run, m * n, addend);
        chain_case(m, n, k, left, right, addend, sum);
        put_back(sum, d_table, d_run, m * n, d);
    }
    give_back(&before);
    free(room);
    return 0;
}
