// Launches, and what is asked of kernels: attributes, occupancy.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "modules.h"

namespace tcsim {

void stay(Error error);

namespace {

constexpr size_t GRANULE = 128;      // of shared memory: CUDA's occupancy calculator, 8.0 and later
constexpr int PORTABLE_CLUSTER = 8;  // CTAs: programming guide, "Thread Block Clusters"
constexpr size_t DEFAULT_SHARED = 49152;  // what a CTA has without cudaFuncSetAttribute: programming guide, 5.4

struct Configuration {
    Dim3 grid, block;
    size_t shared;
    Stream stream;
};

thread_local std::vector<Configuration> pushed;  // between the triple brackets and the kernel's stub

size_t allowed_shared(const void *host, const Function &function) {
    return std::max<int>(dynamic_shared_limit(host), int(DEFAULT_SHARED) - int(function.shared));
}

struct Geometry {
    Dim3 grid, block, cluster;
    size_t shared;
    uint32_t cooperative;
};

Error launch(const void *host, const Geometry &how, void **arguments) {
    UNLESS_STUCK
    const Function *function = nullptr;
    Error error = function_of(host, &function);
    if (error == INVALID_DEVICE_FUNCTION) return failed(INVALID_HANDLE);  // measured
    uint64_t ctas = uint64_t(how.cluster.x) * how.cluster.y * how.cluster.z;
    if (!error && ctas > PORTABLE_CLUSTER && !nonportable_cluster(host)) {
        fprintf(stderr, "tcsim: %lu CTAs a cluster; legal: at most %d, or cudaFuncSetAttribute(kernel, "
                "cudaFuncAttributeNonPortableClusterSizeAllowed, 1)\n", ctas, PORTABLE_CLUSTER);
        return failed(INVALID_CLUSTER_SIZE);
    }
    size_t allowed = allowed_shared(host, *function);
    if (!error && how.shared > allowed) {
        fprintf(stderr, "tcsim: %zu bytes of dynamic shared memory, of which %zu are allowed; legal: cudaFuncSetAttribute"
                "(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)\n", how.shared, allowed);
        return failed(INVALID_VALUE);
    }
    std::string parameters(function->parameter_bytes, '\0');
    for (size_t i = 0; i < function->parameters.size(); i++)
        memcpy(&parameters[function->parameters[i].first], arguments[i], function->parameters[i].second);
    Bytes question, answer;
    question.put(function->module).put(how.cooperative).put(how.grid).put(how.block).put(how.cluster);
    question.put<uint64_t>(how.shared).put<uint32_t>(function->name.size()).text(function->name).text(parameters);
    fflush(stdout);  // what the program has said stands before what the kernel says
    error = ask(LAUNCH, question, &answer);
    bool staying = answer.take<uint32_t>();
    std::string printed = answer.rest();
    fwrite(printed.data(), 1, printed.size(), stdout);
    if (staying) stay(error);
    return failed(error);
}

Error occupancy(int *ctas, const void *host, int threads, size_t shared) {
    UNLESS_STUCK
    const Function *function;
    if (Error error = function_of(host, &function)) return failed(error);
    if (!ctas || threads < 1) return failed(INVALID_VALUE);
    *ctas = 0;
    if (shared > allowed_shared(host, *function)) return SUCCESS;  // a kernel that has not been allowed as much
    Bytes answer;
    Bytes question = Bytes().put(function->module).put<uint32_t>(threads).put<uint64_t>(shared).text(function->name);
    Error error = ask(OCCUPANCY, question, &answer);
    *ctas = answer.take<uint32_t>();
    return failed(error);
}

Dim3 cluster_of(const LaunchConfiguration *configuration) {
    for (unsigned i = 0; i < configuration->count; i++)
        if (configuration->attributes[i].identifier == CLUSTER) return configuration->attributes[i].value.dimensions;
    return {0, 0, 0};
}

}  // namespace

}  // namespace tcsim

using namespace tcsim;

API unsigned __cudaPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared, Stream stream) {
    pushed.push_back({grid, block, shared, stream});
    return 0;
}

API Error __cudaPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared, Stream *stream) {
    if (pushed.empty()) return failed(INVALID_CONFIGURATION);
    Configuration last = pushed.back();
    pushed.pop_back();
    *grid = last.grid, *block = last.block, *shared = last.shared, *stream = last.stream;
    return SUCCESS;
}

API Error cudaLaunchKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream) {
    return launch(host, {grid, block, {0, 0, 0}, shared, 0}, arguments);
}

API Error __cudaLaunchKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream) {
    return launch(host, {grid, block, {0, 0, 0}, shared, 0}, arguments);
}

API Error cudaLaunchCooperativeKernel(const void *host, Dim3 grid, Dim3 block, void **arguments, size_t shared, Stream) {
    return launch(host, {grid, block, {0, 0, 0}, shared, 1}, arguments);
}

API Error cudaLaunchKernelExC(const LaunchConfiguration *configuration, const void *host, void **arguments) {
    Geometry how = {configuration->grid, configuration->block, cluster_of(configuration), configuration->shared, 0};
    for (unsigned i = 0; i < configuration->count; i++)
        if (configuration->attributes[i].identifier == COOPERATIVE)
            how.cooperative = configuration->attributes[i].value.number != 0;
    return launch(host, how, arguments);
}

API Error cudaFuncSetAttribute(const void *host, int attribute, int value) {
    UNLESS_STUCK
    const Function *function;
    Error error = function_of(host, &function);
    if (error == INVALID_DEVICE_FUNCTION) return failed(error);
    if (attribute == 8) {  // cudaFuncAttributeMaxDynamicSharedMemorySize
        if (value < 0 || value + int64_t(function->shared) > int64_t(device().block_shared)) return failed(INVALID_VALUE);
        dynamic_shared_limit(host) = value;
    }
    if (attribute == 14) nonportable_cluster(host) = value != 0;  // cudaFuncAttributeNonPortableClusterSizeAllowed
    return SUCCESS;  // the others are hints
}

API Error cudaFuncSetCacheConfig(const void *, int) { return stuck(); }
API Error cudaFuncSetSharedMemConfig(const void *, int) { return stuck(); }

API Error cudaFuncGetAttributes(FunctionAttributes *attributes, const void *host) {
    UNLESS_STUCK
    const Function *function;
    if (Error error = function_of(host, &function)) return failed(error);
    memset(attributes, 0, sizeof *attributes);
    attributes->shared_bytes = function->shared;
    attributes->constant_bytes = function->constant;
    attributes->local_bytes = function->local;
    attributes->most_threads = function->most_threads;
    attributes->registers = function->registers;
    attributes->ptx_version = attributes->binary_version = function->target;
    attributes->most_dynamic_shared = int(allowed_shared(host, *function));
    attributes->carveout = -1;
    for (int i = 0; i < 3; i++) attributes->cluster[i] = function->cluster[i];
    attributes->cluster_must_be_set = function->cluster[0] != 0;
    attributes->nonportable_cluster_allowed = nonportable_cluster(host);
    return SUCCESS;
}

API Error cudaFuncGetParamInfo(const void *host, size_t index, size_t *offset, size_t *bytes) {
    const Function *function;
    if (Error error = function_of(host, &function)) return failed(error);
    if (index >= function->parameters.size()) return failed(INVALID_VALUE);
    *offset = function->parameters[index].first;
    if (bytes) *bytes = function->parameters[index].second;
    return stuck();
}

API Error cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ctas, const void *host, int threads, size_t shared) {
    return occupancy(ctas, host, threads, shared);
}

API Error cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *ctas, const void *host, int threads, size_t shared, unsigned) {
    return occupancy(ctas, host, threads, shared);
}

API Error cudaOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *host, int ctas, int threads) {
    UNLESS_STUCK
    const Function *function;
    if (Error error = function_of(host, &function)) return failed(error);
    if (!bytes || ctas < 1 || threads < 1) return failed(INVALID_VALUE);
    const Device &chip = device();
    size_t part = chip.sm_shared / ctas / GRANULE * GRANULE, taken = chip.reserved_shared + function->shared;
    *bytes = part > taken ? std::min(part - taken, allowed_shared(host, *function)) : 0;
    return SUCCESS;
}

API Error cudaOccupancyMaxPotentialClusterSize(int *size, const void *host, const LaunchConfiguration *configuration) {
    int ctas = 0, most = device().major < 9 ? 1 : PORTABLE_CLUSTER;
    Dim3 block = configuration->block;
    Error error = occupancy(&ctas, host, block.x * block.y * block.z, configuration->shared);
    *size = ctas ? most : 0;
    return error;
}

API Error cudaOccupancyMaxActiveClusters(int *clusters, const void *host, const LaunchConfiguration *configuration) {
    Dim3 block = configuration->block, cluster = cluster_of(configuration);
    int ctas = 0, each = std::max(1u, cluster.x * cluster.y * cluster.z);
    Error error = occupancy(&ctas, host, block.x * block.y * block.z, configuration->shared);
    *clusters = ctas * int(device().sms) / each;
    return error;
}
