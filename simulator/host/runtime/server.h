// The other end: the simulator, which answers requests over a socket and maps the same device memory (docs/exec.md has
// the protocol).
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "abi.h"

namespace tcsim {

enum Request : uint32_t {
    DEVICE = 1,      // -> Device
    MODULE = 2,      // number, fat binary; no reply
    FUNCTION = 3,    // module, name -> Function: numbers, then offset and size of each parameter
    VARIABLE = 4,    // module, name -> address, bytes
    ALLOCATE = 5,    // address, bytes, kind; no reply
    RELEASE = 6,     // address; no reply
    LAUNCH = 7,      // Launch, name, parameters -> what the kernel printed
    OCCUPANCY = 8,   // module, threads, dynamic shared memory, name -> CTAs of an SM
    TENSOR_MAP = 9,  // TensorMap -> 128 bytes
    CLOCK = 10,      // -> milliseconds
};

// Bytes of a request, or of its answer, in the order of the protocol: little endian, without gaps.
struct Bytes {
    std::string data;
    size_t at = 0;

    template <typename T> Bytes &put(const T &value) {
        data.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    Bytes &text(const std::string &value) {
        data += value;
        return *this;
    }
    template <typename T> T take() {
        T value{};
        if (at + sizeof value <= data.size()) __builtin_memcpy(&value, data.data() + at, sizeof value);
        at += sizeof value;
        return value;
    }
    std::string rest() { return at < data.size() ? data.substr(at) : std::string(); }
};

struct Device {  // what the config says of the chip
    uint64_t global_bytes;
    uint32_t sms, major, minor, clock_khz, block_shared, sm_shared, reserved_shared, registers, warps, ctas, l2_bytes;
    char name[64];
};

struct Function {  // a kernel, as the server has linked it
    std::string name;
    uint32_t module;
    uint32_t shared, constant, local, registers, most_threads, version, target, cluster[3];
    std::vector<std::pair<uint32_t, uint32_t>> parameters;  // offset, bytes
    size_t parameter_bytes = 0;
};

Error ask(Request request, const Bytes &question, Bytes *answer);
const Device &device();

constexpr uint64_t ARENA = 0x300000000000;    // where device memory lies in both processes
constexpr uint64_t ARENA_BYTES = 1ull << 40;  // the memory file is sparse: only pages that are written exist
constexpr uint64_t VARIABLE_BYTES = 1ull << 32;  // its beginning, where the server places variables of modules

enum Kind : uint32_t { DEVICE_MEMORY = 0, HOST_MEMORY = 1, MANAGED_MEMORY = 2 };

struct Allocation {
    size_t bytes;
    Kind kind;
};

const Allocation *allocation_of(const void *address, uint64_t *start);
void connect_memory();

// The error that later calls report. Errors after which device memory cannot be trusted stay (`sticky`).
Error failed(Error error);
Error stuck();

// A call that fails at once where an earlier error stays.
#define UNLESS_STUCK               \
    if (Error error_ = stuck()) { \
        return error_;             \
    }

}  // namespace tcsim
