// What the code that nvcc writes calls before main: modules, their kernels and their variables.
#include <cstdio>
#include <cstring>

#include "modules.h"

namespace tcsim {

namespace {

struct Kernel {
    uint32_t module;
    std::string name;
    Function known;
    Error error = SUCCESS;
    bool asked = false;
    int most_dynamic_shared = -1;
    bool nonportable_cluster = false;
};

struct Variable {
    uint32_t module;
    std::string name;
    uint64_t address = 0;
    size_t bytes = 0;
    void **managed = nullptr;
};

struct Registry {
    std::vector<const char *> binaries;  // by number of the module
    std::vector<bool> sent;
    std::map<const void *, Kernel> kernels;
    std::map<const void *, Variable> variables;
};

Registry &registry() {  // made before the first constructor of a program calls us
    static auto *one = new Registry;
    return *one;
}

void send(uint32_t module) {
    Registry &all = registry();
    if (all.sent[module]) return;
    all.sent[module] = true;
    connect_memory();
    const char *data = all.binaries[module];
    uint16_t head;  // a fat binary: magic (4 bytes), version (2), bytes of its head (2), bytes behind it (8)
    uint64_t body;
    memcpy(&head, data + 6, 2);
    memcpy(&body, data + 8, 8);
    ask(MODULE, Bytes().put(module).text(std::string(data, head + body)), nullptr);
}

Error locate(Variable &variable) {
    if (variable.address) return SUCCESS;
    send(variable.module);
    Bytes answer;
    if (Error error = ask(VARIABLE, Bytes().put(variable.module).text(variable.name), &answer)) return error;
    variable.address = answer.take<uint64_t>();
    variable.bytes = answer.take<uint64_t>();
    return SUCCESS;
}

Error symbol(const void *key, size_t bytes, size_t offset, char **address) {
    auto found = registry().variables.find(key);
    if (found == registry().variables.end()) return failed(INVALID_SYMBOL);
    if (Error error = locate(found->second)) return failed(error);
    if (offset > found->second.bytes || bytes > found->second.bytes - offset) return failed(INVALID_VALUE);
    *address = reinterpret_cast<char *>(found->second.address + offset);
    return SUCCESS;
}

}  // namespace

Error function_of(const void *host, const Function **function) {
    auto found = registry().kernels.find(host);
    if (found == registry().kernels.end()) return INVALID_DEVICE_FUNCTION;
    Kernel &kernel = found->second;
    if (!kernel.asked) {
        kernel.asked = true;
        send(kernel.module);
        Bytes answer;
        kernel.error = ask(FUNCTION, Bytes().put(kernel.module).text(kernel.name), &answer);
        Function &one = kernel.known;
        one.name = kernel.name;
        one.module = kernel.module;
        for (uint32_t *value : {&one.shared, &one.constant, &one.local, &one.registers, &one.most_threads, &one.version,
                                &one.target, &one.cluster[0], &one.cluster[1], &one.cluster[2]})
            *value = answer.take<uint32_t>();
        one.parameter_bytes = answer.take<uint32_t>();
        for (uint32_t left = answer.take<uint32_t>(); left; left--) {
            uint32_t offset = answer.take<uint32_t>(), bytes = answer.take<uint32_t>();
            one.parameters.emplace_back(offset, bytes);
        }
    }
    *function = &kernel.known;
    return kernel.error;
}

int &dynamic_shared_limit(const void *host) { return registry().kernels[host].most_dynamic_shared; }
bool &nonportable_cluster(const void *host) { return registry().kernels[host].nonportable_cluster; }

}  // namespace tcsim

using namespace tcsim;

API void **__cudaRegisterFatBinary(void *wrapper) {
    struct {
        int magic, version;
        const char *data;
        void *file;
    } known;
    memcpy(&known, wrapper, sizeof known);
    registry().binaries.push_back(known.data);
    registry().sent.push_back(false);
    return reinterpret_cast<void **>(registry().binaries.size());  // from 1 on
}

API void __cudaRegisterFatBinaryEnd(void **) {}
API void __cudaUnregisterFatBinary(void **) {}

static uint32_t number(void **handle) { return static_cast<uint32_t>(reinterpret_cast<size_t>(handle) - 1); }

API void __cudaRegisterFunction(
    void **module, const char *host, char *, const char *name, int, void *, void *, void *, void *, int *) {
    Kernel kernel;
    kernel.module = number(module);
    kernel.name = name;
    registry().kernels[host] = kernel;
}

API void __cudaRegisterVar(void **module, char *host, char *, const char *name, int, size_t bytes, int, int) {
    Variable variable;
    variable.module = number(module);
    variable.name = name;
    variable.bytes = bytes;
    registry().variables[host] = variable;
}

API void __cudaRegisterManagedVar(void **module, void **host, char *, const char *name, int, size_t bytes, int, int) {
    Variable variable;
    variable.module = number(module);
    variable.name = name;
    variable.bytes = bytes;
    variable.managed = host;
    registry().variables[host] = variable;
}

API char __cudaInitModule(void **module) {
    for (auto &each : registry().variables) {
        Variable &variable = each.second;
        if (!variable.managed || variable.module != number(module)) continue;
        if (Error error = locate(variable)) {
            failed(error);
            return 0;
        }
        *variable.managed = reinterpret_cast<void *>(variable.address);
    }
    return 1;
}

API Error __cudaGetKernel(const void **kernel, const void *host) {
    *kernel = host;
    return registry().kernels.count(host) ? SUCCESS : failed(INVALID_DEVICE_FUNCTION);
}

API Error cudaGetKernel(const void **kernel, const void *host) { return __cudaGetKernel(kernel, host); }
API Error cudaGetFuncBySymbol(const void **function, const void *host) { return __cudaGetKernel(function, host); }

API Error cudaFuncGetName(const char **name, const void *host) {
    auto found = registry().kernels.find(host);
    if (found == registry().kernels.end()) return failed(INVALID_DEVICE_FUNCTION);
    *name = found->second.name.c_str();
    return SUCCESS;
}

API Error cudaGetSymbolAddress(void **pointer, const void *key) {
    UNLESS_STUCK
    return symbol(key, 0, 0, reinterpret_cast<char **>(pointer));
}

API Error cudaGetSymbolSize(size_t *bytes, const void *key) {
    char *address;
    if (Error error = symbol(key, 0, 0, &address)) return error;
    *bytes = registry().variables[key].bytes;
    return stuck();
}

API Error cudaMemcpyToSymbol(const void *key, const void *from, size_t bytes, size_t offset, int) {
    UNLESS_STUCK
    char *to;
    if (Error error = symbol(key, bytes, offset, &to)) return error;
    memmove(to, from, bytes);
    return SUCCESS;
}

API Error cudaMemcpyFromSymbol(void *to, const void *key, size_t bytes, size_t offset, int) {
    char *from;
    if (Error error = symbol(key, bytes, offset, &from)) return error;
    memmove(to, from, bytes);  // poison after a launch that failed, as `copy` in memory.cpp
    return stuck();
}

API Error cudaMemcpyToSymbolAsync(const void *key, const void *from, size_t bytes, size_t offset, int kind, Stream) {
    return cudaMemcpyToSymbol(key, from, bytes, offset, kind);
}

API Error cudaMemcpyFromSymbolAsync(void *to, const void *key, size_t bytes, size_t offset, int kind, Stream) {
    return cudaMemcpyFromSymbol(to, key, bytes, offset, kind);
}
