/* What Python hands over: one plan for all calls of a form, tables of places in it, and the arrays of a call.
 *
 * Every table is made in Python from the mappings of `isa`; nothing here knows a layout. Offsets are in 32-bit words from a case's first word
 * (64-bit ones in `chain_f64`).
 */
#ifndef TCSIM_KERNEL_H
#define TCSIM_KERNEL_H

#include <stdint.h>

enum { WIDTH = 8 };            /* columns of D that are worked on together */
enum { MOST_GROUPS = 64 };     /* of block-scaled products */
enum { NO_EXPONENT = -4096 };  /* of zeros, infinities and NaN, as in formats.py */

/* How patterns of a float type are read and written. */
typedef struct {
    int32_t bits, exponent, fraction, padding, bias;
    int32_t nan;                /* 0: none; 1: the whole all-ones exponent is special */
    const double *value;        /* types of up to 8 bits: tables of all patterns, otherwise null */
    const int32_t *power;
} Format;

/* Where the words of an operand are: `words` [outer][inner]; each holds `per` elements that follow one another along K (A, B) or N (C, D).
 * `run` (1 or 4) words of the table follow one another in memory, too.
 */
typedef struct {
    int64_t stride;             /* words of a case */
    const int32_t *words;
    int32_t per, bits, run;
} Operand;

/* Block scale factors: pattern = word >> shift & 255, tables [row or column][factor]. */
typedef struct {
    int64_t stride;
    const int32_t *words, *shifts;
    const double *value;        /* of all 256 patterns */
    const int32_t *power;
} Scale;

typedef struct {
    int32_t m, n, k, stored;    /* n: a multiple of WIDTH; stored: columns of A that are there */
    Operand a, b, c, d;
    Format a_format, b_format, c_format, d_format;
    /* metadata (chunks = 0: dense): code = word >> shift & 15 [row][chunk in order of summation]; place [code][stored in a chunk] of the chosen row
     * of B relative to the chunk's first, times n; halves: codes join 16-bit halves */
    int32_t chunks, in_chunk, halves;
    int64_t e_stride;
    const int32_t *e_words, *e_shifts, *place;
    /* where `run` elements in a row have their 2-bit indices in one word: its offset and lowest bit [row][run], bits from there on [element] */
    int32_t run, unit;          /* run: a multiple of WIDTH, or 0; unit: n times the elements that an index picks together */
    const int32_t *run_words, *run_shifts, *index_shifts;
    /* the sum */
    /* in order of summation: column of stored A, the row of B times n that it meets if dense, or that its chunk starts at */
    const int32_t *a_index, *b_start, *steps;
    int32_t step_count, fraction, floor, kept, add_last, chained, group, saturate, exclusive, is_signed_a, is_signed_b;
    /* block scales (factors = 0: none) */
    int32_t factors;
    Scale scale_a, scale_b;
} Plan;

#endif
