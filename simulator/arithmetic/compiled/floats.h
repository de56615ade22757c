/* Patterns to numbers and back, in loops that a compiler turns into vector code. The rules are those of formats.py. */
#ifndef TCSIM_FLOATS_H
#define TCSIM_FLOATS_H

#include <fenv.h>
#include <math.h>
#include <string.h>

#include "kernel.h"

#define INLINE static inline __attribute__((always_inline))

typedef double Reals __attribute__((vector_size(8 * WIDTH)));
typedef float Floats __attribute__((vector_size(4 * WIDTH)));
typedef int64_t Longs __attribute__((vector_size(8 * WIDTH)));
typedef int32_t Ints __attribute__((vector_size(4 * WIDTH)));

INLINE double from_bits(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
INLINE uint64_t to_bits(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }
INLINE double power_of_two(int32_t n) { return from_bits((uint64_t)(int64_t)(n + 1023) << 52); }

INLINE Reals load_reals(const double *p) { Reals v; memcpy(&v, p, sizeof v); return v; }
INLINE Ints load_ints(const int32_t *p) { Ints v; memcpy(&v, p, sizeof v); return v; }
INLINE Ints max_ints(Ints x, Ints y) { Ints more = x > y; return (x & more) | (y & ~more); }
INLINE Reals powers(Ints n) { return (Reals)(__builtin_convertvector(n + 1023, Longs) << 52); }

INLINE Reals truncated(Reals x) {
    double a[WIDTH];
    memcpy(a, &x, sizeof a);
    for (int i = 0; i < WIDTH; i++) a[i] = __builtin_trunc(a[i]);
    return load_reals(a);
}

/* Patterns -> values and exponents; types of more than 8 bits. */
INLINE void decode_fields(const uint32_t *restrict pattern, int64_t count, Format f, double *restrict value, int32_t *restrict power) {
    const uint32_t ones = (1u << f.exponent) - 1, fraction_mask = (1u << f.fraction) - 1, hidden = 1u << f.fraction;
    for (int64_t i = 0; i < count; i++) {
        uint32_t kept = pattern[i] >> f.padding;
        uint32_t fraction = kept & fraction_mask, field = (kept >> f.fraction) & ones, sign = (kept >> (f.fraction + f.exponent)) & 1;
        uint32_t digits = fraction | (field ? hidden : 0);
        int32_t exponent = (int32_t)(field ? field : 1) - f.bias;
        uint64_t bits = to_bits((double)(int32_t)digits * power_of_two(exponent - f.fraction));
        uint64_t special = fraction ? 0x7FF8000000000000u : 0x7FF0000000000000u;
        bits = (field == ones && f.nan) ? special : bits;
        value[i] = from_bits(bits | (uint64_t)sign << 63);
        power[i] = (digits == 0 || (field == ones && f.nan)) ? NO_EXPONENT : exponent;
    }
}

INLINE void decode_all(const uint32_t *restrict pattern, int64_t count, Format f, double *restrict value, int32_t *restrict power) {
    if (!f.value) { decode_fields(pattern, count, f, value, power); return; }
    for (int64_t i = 0; i < count; i++) { value[i] = f.value[pattern[i]]; power[i] = f.power[pattern[i]]; }
}

/* WIDTH numbers -> patterns, rounded once: to nearest even or toward zero, to `kept` fraction bits. Zero is +0, NaN canonical. */
INLINE void encode(Reals numbers, Format f, int32_t kept, int nearest, uint32_t *restrict pattern) {
    double x[WIDTH];
    memcpy(x, &numbers, sizeof x);
    const int32_t lowest = 1 - f.bias, highest = f.bias + 1;
    const uint32_t infinity = ((1u << f.exponent) - 1) << f.fraction, sign_bit = 1u << (f.bits - 1), nan = sign_bit - 1;
    for (int i = 0; i < WIDTH; i++) {
        uint64_t bits = to_bits(x[i]);
        int32_t exponent = (int32_t)(bits >> 52 & 0x7FF) - 1023;
        int finite = exponent != 1024;
        exponent = exponent > lowest ? exponent : lowest;
        double scaled = from_bits(bits & ~(1ull << 63)) * power_of_two(finite ? kept - exponent : 0);
        scaled = nearest ? __builtin_rint(scaled) : scaled;
        uint32_t digits = (uint32_t)(int32_t)(finite ? scaled : 0.0);
        uint32_t place = (uint32_t)((exponent < highest ? exponent : highest) - lowest);
        uint32_t magnitude = (place << f.fraction) + (digits << (f.fraction - kept));
        magnitude = magnitude < infinity ? magnitude : infinity;
        magnitude = finite ? magnitude : infinity;
        uint32_t signed_pattern = magnitude | (magnitude && bits >> 63 ? sign_bit : 0);
        pattern[i] = x[i] != x[i] ? nan : signed_pattern;
    }
}

/* Takes C's default floating-point environment for a call: rounding to nearest, subnormals kept (on x86 that is MXCSR, too). Whoever calls may have
 * set another, which `give_back` restores. */
INLINE void take_default(fenv_t *before) {
    fegetenv(before);
    fesetenv(FE_DFL_ENV);
}

INLINE void give_back(const fenv_t *before) { fesetenv(before); }

#endif
