// The functions of the driver that programs ask the runtime for: tensor maps, and the words of errors.
#include <cstdio>
#include <cstring>

#include "server.h"

using namespace tcsim;

namespace {

// A map as the server wants it: im2col (1, of the wide function 2) has corners and counts in place of the box.
struct TensorMap {
    uint32_t im2col, type, rank, interleave, swizzle, promotion, fill, channels, pixels, padding;
    uint64_t address, size[5], stride[4];
    uint32_t box[5], element_stride[5];
    int32_t lower[3], upper[3];
};

Error encode(void *map, TensorMap &wanted, const uint64_t *size, const uint64_t *stride, const uint32_t *element) {
    if (wanted.rank < 1 || wanted.rank > 5 || !map || reinterpret_cast<size_t>(map) % 64 || !size || !element)
        return INVALID_VALUE;
    for (uint32_t i = 0; i < wanted.rank; i++) {
        wanted.size[i] = size[i];
        wanted.element_stride[i] = element[i];
        if (i + 1 < wanted.rank) wanted.stride[i] = stride[i];
    }
    Bytes answer;
    if (Error error = ask(TENSOR_MAP, Bytes().put(wanted), &answer)) return error;
    memcpy(map, answer.data.data(), 128);
    return SUCCESS;
}

Error encode_tiled(
    void *map, int type, uint32_t rank, void *address, const uint64_t *size, const uint64_t *stride, const uint32_t *box,
    const uint32_t *element, int interleave, int swizzle, int promotion, int fill) {
    TensorMap wanted{};
    wanted.type = type, wanted.rank = rank, wanted.address = reinterpret_cast<uint64_t>(address);
    wanted.interleave = interleave, wanted.swizzle = swizzle, wanted.promotion = promotion, wanted.fill = fill;
    if (!box) return INVALID_VALUE;
    for (uint32_t i = 0; i < rank && i < 5; i++) wanted.box[i] = box[i];
    return encode(map, wanted, size, stride, element);
}

Error encode_im2col(
    void *map, int type, uint32_t rank, void *address, const uint64_t *size, const uint64_t *stride, const int *lower,
    const int *upper, uint32_t channels, uint32_t pixels, const uint32_t *element, int interleave, int swizzle,
    int promotion, int fill) {
    TensorMap wanted{};
    wanted.im2col = 1, wanted.channels = channels, wanted.pixels = pixels;
    wanted.type = type, wanted.rank = rank, wanted.address = reinterpret_cast<uint64_t>(address);
    wanted.interleave = interleave, wanted.swizzle = swizzle, wanted.promotion = promotion, wanted.fill = fill;
    if (!lower || !upper) return INVALID_VALUE;
    for (uint32_t i = 0; i + 2 < rank && i < 3; i++) wanted.lower[i] = lower[i], wanted.upper[i] = upper[i];
    return encode(map, wanted, size, stride, element);
}

Error encode_im2col_wide(
    void *map, int type, uint32_t rank, void *address, const uint64_t *size, const uint64_t *stride, int lower,
    int upper, uint32_t channels, uint32_t pixels, const uint32_t *element, int interleave, int, int swizzle,
    int promotion, int fill) {
    TensorMap wanted{};  // the mode is one of the copy: the driver of an H200 makes the same map of both
    wanted.im2col = 2, wanted.channels = channels, wanted.pixels = pixels;
    wanted.type = type, wanted.rank = rank, wanted.address = reinterpret_cast<uint64_t>(address);
    wanted.interleave = interleave, wanted.swizzle = swizzle, wanted.promotion = promotion, wanted.fill = fill;
    wanted.lower[0] = lower, wanted.upper[0] = upper;
    return encode(map, wanted, size, stride, element);
}

Error replace_address(void *map, void *address) {  // of the bytes 0 to 7
    uint64_t value = reinterpret_cast<uint64_t>(address);
    if (!map || reinterpret_cast<size_t>(map) % 64 || value % 16) return INVALID_VALUE;
    memcpy(map, &value, sizeof value);
    return SUCCESS;
}

Error error_text(int error, const char **text);
Error error_name(int error, const char **text);
Error driver_version(int *version);

}  // namespace

API const char *cudaGetErrorString(Error error);
API const char *cudaGetErrorName(Error error);
API Error cudaDriverGetVersion(int *version);

namespace {

Error error_text(int error, const char **text) {  // codes of the driver that matter here are those of the runtime
    *text = cudaGetErrorString(static_cast<Error>(error));
    return SUCCESS;
}

Error error_name(int error, const char **text) {
    *text = cudaGetErrorName(static_cast<Error>(error));
    return SUCCESS;
}

Error driver_version(int *version) { return cudaDriverGetVersion(version); }

Error initialise(unsigned) { return SUCCESS; }

Error entry_point(const char *name, void **function, int *result) {
    static const struct {
        const char *name;
        void *function;
    } known[] = {
        {"cuTensorMapEncodeTiled", reinterpret_cast<void *>(encode_tiled)},
        {"cuTensorMapEncodeIm2col", reinterpret_cast<void *>(encode_im2col)},
        {"cuTensorMapEncodeIm2colWide", reinterpret_cast<void *>(encode_im2col_wide)},
        {"cuTensorMapReplaceAddress", reinterpret_cast<void *>(replace_address)},
        {"cuGetErrorString", reinterpret_cast<void *>(error_text)},
        {"cuGetErrorName", reinterpret_cast<void *>(error_name)},
        {"cuDriverGetVersion", reinterpret_cast<void *>(driver_version)},
        {"cuInit", reinterpret_cast<void *>(initialise)},
    };
    *function = nullptr;
    for (const auto &each : known)
        if (!strcmp(each.name, name)) *function = each.function;
    if (!*function) fprintf(stderr, "tcsim: the driver's function %s is not there\n", name);
    if (result) *result = *function ? 0 : 1;  // cudaDriverEntryPointSuccess, SymbolNotFound
    return *function || result ? SUCCESS : failed(static_cast<Error>(500));
}

}  // namespace

API Error cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long, int *result) {
    return entry_point(name, function, result);
}

API Error cudaGetDriverEntryPointByVersion(
    const char *name, void **function, unsigned, unsigned long long, int *result) {
    return entry_point(name, function, result);
}

API Error tcsim_missing(const char *name, bool *said) {
    if (!*said) fprintf(stderr, "tcsim: %s is not supported\n", name);
    *said = true;
    return failed(NOT_SUPPORTED);
}
