// Errors: the last one of a thread, those that stay, and their names.
#include <atomic>

#include "server.h"

namespace tcsim {

namespace {

thread_local Error last = SUCCESS;
std::atomic<int> staying{SUCCESS};

struct Named {
    int error;
    const char *name, *text;
};

const Named NAMES[] = {
    {0, "cudaSuccess", "no error"},
    {1, "cudaErrorInvalidValue", "invalid argument"},
    {2, "cudaErrorMemoryAllocation", "out of memory"},
    {3, "cudaErrorInitializationError", "initialization error"},
    {9, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {13, "cudaErrorInvalidSymbol", "invalid device symbol"},
    {98, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {101, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {209, "cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"},
    {218, "cudaErrorInvalidPtx", "a PTX JIT compilation failed"},
    {215, "cudaErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {400, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {500, "cudaErrorSymbolNotFound", "named symbol not found"},
    {600, "cudaErrorNotReady", "device not ready"},
    {700, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {710, "cudaErrorAssert", "device-side assert triggered"},
    {715, "cudaErrorIllegalInstruction", "an illegal instruction was encountered"},
    {716, "cudaErrorMisalignedAddress", "misaligned address"},
    {719, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {720, "cudaErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "cudaErrorNotSupported", "operation not supported"},
    {912, "cudaErrorInvalidClusterSize", "cluster misconfiguration"},
    {999, "cudaErrorUnknown", "unknown error"},
};

const Named &named(int error) {
    static const Named UNKNOWN = {999, "unrecognized error code", "unrecognized error code"};
    for (const Named &each : NAMES)
        if (each.error == error) return each;
    return UNKNOWN;
}

bool stays(int error) {
    return (error >= 700 && error < 720 && error != LAUNCH_OUT_OF_RESOURCES) || error == 999;
}

}  // namespace

Error failed(Error error) {
    if (error == SUCCESS) return error;
    if (stays(error)) staying = error;
    return last = error;
}

void stay(Error error) { staying = error; }

Error stuck() {
    int error = staying;
    return error ? last = static_cast<Error>(error) : SUCCESS;
}

}  // namespace tcsim

using namespace tcsim;

API Error cudaGetLastError() {
    if (Error error = stuck()) return error;
    Error error = last;
    last = SUCCESS;
    return error;
}

API Error cudaPeekAtLastError() {
    if (Error error = stuck()) return error;
    return last;
}

API const char *cudaGetErrorName(Error error) { return named(error).name; }

API const char *cudaGetErrorString(Error error) { return named(error).text; }
