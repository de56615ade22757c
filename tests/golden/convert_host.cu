// What NVIDIA's own host code for cvt (cuda_fp4.h, cuda_fp6.h, cuda_fp8.h, cuda_fp16.h, cuda_bf16.h) gives: one binary file a conversion.
//
//     convert_host DIRECTORY INPUTS_F64 INPUTS_S32      (make_convert.py compiles and runs it; everything runs on the host)
//
// DIRECTORY/runs.TARGET.f32.ROUNDING[.satfinite]   pairs of uint32 (pattern, result): patterns at which the result differs from that of the
//                                                  pattern before, over all 2^32
// DIRECTORY/list.TARGET.SOURCE.ROUNDING[.satfinite] one uint32 for each pattern of the source, or for each input of the given file
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>

static std::string directory;

static void write(const std::string &name, const std::vector<uint32_t> &data) {
    FILE *file = std::fopen((directory + "/" + name).c_str(), "wb");
    if (!file || std::fwrite(data.data(), 4, data.size(), file) != data.size() || std::fclose(file)) {
        std::perror(name.c_str());
        std::exit(1);
    }
}

template <class T> static std::vector<T> read(const char *path) {
    FILE *file = std::fopen(path, "rb");
    if (!file) { std::perror(path); std::exit(1); }
    std::vector<T> data;
    T one;
    while (std::fread(&one, sizeof one, 1, file) == 1) data.push_back(one);
    std::fclose(file);
    return data;
}

template <class To, class From> static To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

template <class F> static void runs(const char *name, F convert) {
    std::vector<uint32_t> found;
    uint32_t before = ~convert(0.0f);
    uint32_t pattern = 0;
    do {
        const uint32_t result = convert(bits<float>(pattern));
        if (result != before) {
            found.push_back(pattern);
            found.push_back(result);
            before = result;
        }
    } while (++pattern);
    write(std::string("runs.") + name, found);
}

template <class F> static void codes(const char *name, uint32_t count, F convert) {
    std::vector<uint32_t> found(count);
    for (uint32_t code = 0; code < count; ++code) found[code] = convert(code);
    write(std::string("list.") + name, found);
}

template <class T, class F> static void list(const char *name, const std::vector<T> &given, F convert) {
    std::vector<uint32_t> found;
    for (const T &x : given) found.push_back(convert(x));
    write(std::string("list.") + name, found);
}

static __half fp16(uint32_t x) { return bits<__half>(static_cast<uint16_t>(x)); }
static __half_raw half_raw(uint32_t x) { __half_raw r; r.x = static_cast<uint16_t>(x); return r; }
static __nv_bfloat16 bf(uint32_t x) { return bits<__nv_bfloat16>(static_cast<uint16_t>(x)); }
static __nv_bfloat16_raw bf_raw(uint32_t x) { __nv_bfloat16_raw r; r.x = static_cast<uint16_t>(x); return r; }
static uint32_t u(__half x) { return bits<uint16_t>(x); }
static uint32_t u(__half_raw x) { return x.x; }
static uint32_t u(__nv_bfloat16 x) { return bits<uint16_t>(x); }
static uint32_t u(__nv_bfloat16_raw x) { return x.x; }
static uint32_t u(float x) { return bits<uint32_t>(x); }

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    directory = argv[1];
    const auto f64 = read<double>(argv[2]);
    const auto s32 = read<int32_t>(argv[3]);
    const uint32_t all = 1u << 16;

#define FP8(NAME, SAT, KIND)                                                                                           \
    runs(NAME(f32), [](float x) -> uint32_t { return __nv_cvt_float_to_fp8(x, SAT, KIND); });                          \
    list(NAME(f64), f64, [](double x) -> uint32_t { return __nv_cvt_double_to_fp8(x, SAT, KIND); });                   \
    codes(NAME(f16), all, [](uint32_t x) -> uint32_t { return __nv_cvt_halfraw_to_fp8(half_raw(x), SAT, KIND); });     \
    codes(NAME(bf16), all, [](uint32_t x) -> uint32_t { return __nv_cvt_bfloat16raw_to_fp8(bf_raw(x), SAT, KIND); });
#define NAME(S) "e4m3." #S ".rn.satfinite"
    FP8(NAME, __NV_SATFINITE, __NV_E4M3)
#undef NAME
#define NAME(S) "e4m3." #S ".rn"
    FP8(NAME, __NV_NOSAT, __NV_E4M3)
#undef NAME
#define NAME(S) "e5m2." #S ".rn.satfinite"
    FP8(NAME, __NV_SATFINITE, __NV_E5M2)
#undef NAME
#define NAME(S) "e5m2." #S ".rn"
    FP8(NAME, __NV_NOSAT, __NV_E5M2)
#undef NAME

#define SMALL(BITS, KIND, ROUND)                                                                                       \
    runs(NAME(f32), [](float x) -> uint32_t { return __nv_cvt_float_to_fp##BITS(x, KIND, ROUND); });                   \
    list(NAME(f64), f64, [](double x) -> uint32_t { return __nv_cvt_double_to_fp##BITS(x, KIND, ROUND); });            \
    codes(NAME(f16), all, [](uint32_t x) -> uint32_t { return __nv_cvt_halfraw_to_fp##BITS(half_raw(x), KIND, ROUND); }); \
    codes(NAME(bf16), all, [](uint32_t x) -> uint32_t { return __nv_cvt_bfloat16raw_to_fp##BITS(bf_raw(x), KIND, ROUND); });
#define NAME(S) "e3m2." #S ".rn.satfinite"
    SMALL(6, __NV_E3M2, cudaRoundNearest)
#undef NAME
#define NAME(S) "e3m2." #S ".rz.satfinite"
    SMALL(6, __NV_E3M2, cudaRoundZero)
#undef NAME
#define NAME(S) "e2m3." #S ".rn.satfinite"
    SMALL(6, __NV_E2M3, cudaRoundNearest)
#undef NAME
#define NAME(S) "e2m3." #S ".rz.satfinite"
    SMALL(6, __NV_E2M3, cudaRoundZero)
#undef NAME
#define NAME(S) "e2m1." #S ".rn.satfinite"
    SMALL(4, __NV_E2M1, cudaRoundNearest)
#undef NAME
#define NAME(S) "e2m1." #S ".rz.satfinite"
    SMALL(4, __NV_E2M1, cudaRoundZero)
#undef NAME

#define SCALE(SAT, ROUND)                                                                                              \
    runs(NAME(f32), [](float x) -> uint32_t { return __nv_cvt_float_to_e8m0(x, SAT, ROUND); });                        \
    list(NAME(f64), f64, [](double x) -> uint32_t { return __nv_cvt_double_to_e8m0(x, SAT, ROUND); });                 \
    codes(NAME(bf16), all, [](uint32_t x) -> uint32_t { return __nv_cvt_bfloat16raw_to_e8m0(bf_raw(x), SAT, ROUND); });
#define NAME(S) "ue8m0." #S ".rz.satfinite"
    SCALE(__NV_SATFINITE, cudaRoundZero)
#undef NAME
#define NAME(S) "ue8m0." #S ".rp.satfinite"
    SCALE(__NV_SATFINITE, cudaRoundPosInf)
#undef NAME
#define NAME(S) "ue8m0." #S ".rz"
    SCALE(__NV_NOSAT, cudaRoundZero)
#undef NAME
#define NAME(S) "ue8m0." #S ".rp"
    SCALE(__NV_NOSAT, cudaRoundPosInf)
#undef NAME

#define WIDE(PTX, SUFFIX)                                                                                              \
    runs("f16.f32." PTX, [](float x) { return u(__float2half_##SUFFIX(x)); });                                         \
    runs("bf16.f32." PTX, [](float x) { return u(__float2bfloat16_##SUFFIX(x)); });                                    \
    list("f16.s32." PTX, s32, [](int32_t x) { return u(__int2half_##SUFFIX(x)); });
    WIDE("rn", rn)
    WIDE("rz", rz)
    WIDE("rm", rd)
    WIDE("rp", ru)
    list("bf16.s32.rn", s32, [](int32_t x) { return u(__int2bfloat16_rn(x)); });
    list("f16.f64.rn", f64, [](double x) { return u(__double2half(x)); });
    list("bf16.f64.rn", f64, [](double x) { return u(__double2bfloat16(x)); });

    codes("f32.f16.rn", all, [](uint32_t x) { return u(__half2float(fp16(x))); });
    codes("f32.bf16.rn", all, [](uint32_t x) { return u(__bfloat162float(bf(x))); });
    codes("s8.f16.rz", all, [](uint32_t x) -> uint32_t { return static_cast<uint8_t>(__half2char_rz(fp16(x))); });
    codes("u8.f16.rz", all, [](uint32_t x) -> uint32_t { return __half2uchar_rz(fp16(x)); });
    codes("s32.f16.rz", all, [](uint32_t x) -> uint32_t { return static_cast<uint32_t>(__half2int_rz(fp16(x))); });
    codes("s8.bf16.rz", all, [](uint32_t x) -> uint32_t { return static_cast<uint8_t>(__bfloat162char_rz(bf(x))); });
    codes("u8.bf16.rz", all, [](uint32_t x) -> uint32_t { return __bfloat162uchar_rz(bf(x)); });
    codes("s32.bf16.rz", all, [](uint32_t x) -> uint32_t { return static_cast<uint32_t>(__bfloat162int_rz(bf(x))); });
    codes("f16.e4m3.rn", 256, [](uint32_t x) { return u(__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(x), __NV_E4M3)); });
    codes("f16.e5m2.rn", 256, [](uint32_t x) { return u(__nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(x), __NV_E5M2)); });
    codes("f16.e3m2.rn", 64, [](uint32_t x) { return u(__nv_cvt_fp6_to_halfraw(static_cast<uint8_t>(x), __NV_E3M2)); });
    codes("f16.e2m3.rn", 64, [](uint32_t x) { return u(__nv_cvt_fp6_to_halfraw(static_cast<uint8_t>(x), __NV_E2M3)); });
    codes("f16.e2m1.rn", 16, [](uint32_t x) { return u(__nv_cvt_fp4_to_halfraw(static_cast<uint8_t>(x), __NV_E2M1)); });
    codes("bf16.ue8m0.rn", 256, [](uint32_t x) { return u(__nv_cvt_e8m0_to_bf16raw(static_cast<uint8_t>(x))); });
    return 0;
}
