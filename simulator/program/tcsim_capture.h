// Records one launch of a CUDA kernel as a capture, which `tcsim launch` and `tcsim check` read (docs/kernels.md).
//
//     #include "tcsim_capture.h"
//
//     tcsim::Capture capture("captures/spmm", "spmm.ptx");      // writes captures/spmm.json and captures/spmm.npz
//     capture.buffer("A", a, "float16", {m, k / 2});            // device pointer, type, shape
//     capture.buffer("D", d, "float32", {m, n});
//     capture.launch(spmm, grid, block, shared, a, e, b, d, m, n, k);      // in place of spmm<<<grid, block, shared>>>
//
// The PTX is what `nvcc -ptx` prints for the same source; it is copied beside the capture. Every buffer that the kernel
// reads or writes must be named, for its bytes before and after the launch are what the capture holds. The launch is
// waited for. Errors end the program with one line. C++17; CUDA 12.3 or later.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tcsim {

[[noreturn]] inline void fail(const std::string& what) {
    std::fprintf(stderr, "tcsim_capture.h: %s\n", what.c_str());
    std::exit(2);
}

inline void check(cudaError_t status, const char* what) {
    if (status != cudaSuccess) fail(std::string(what) + ": " + cudaGetErrorString(status));
}

// Writes a .npz: a zip file whose members are .npy files, not compressed.
class Archive {
  public:
    explicit Archive(const std::string& path) : path_(path), out_(path + ".part", std::ios::binary) {
        if (!out_) fail("cannot write " + path);
    }

    void add(const std::string& name, const std::vector<std::uint8_t>& bytes) {
        std::string head = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(bytes.size()) + ",), }";
        head.resize((head.size() + 1 + 10 + 63) / 64 * 64 - 10, ' ');
        head.back() = '\n';
        std::vector<std::uint8_t> npy = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
        npy.push_back(head.size() & 0xff);
        npy.push_back(head.size() >> 8);
        npy.insert(npy.end(), head.begin(), head.end());
        npy.insert(npy.end(), bytes.begin(), bytes.end());
        const std::uint64_t place = out_.tellp();
        if (place + npy.size() > 0xff000000u) fail("buffers of more than 4 GB in one capture");
        Entry entry{name + ".npy", static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(npy.size()), crc(npy)};
        number(0x04034b50, 4);
        common(entry);
        out_ << entry.name;
        out_.write(reinterpret_cast<const char*>(npy.data()), static_cast<std::streamsize>(npy.size()));
        entries_.push_back(entry);
    }

    void close() {
        const std::uint32_t begin = static_cast<std::uint32_t>(out_.tellp());
        for (const Entry& entry : entries_) {
            number(0x02014b50, 4);
            number(20, 2);
            common(entry);
            number(0, 2), number(0, 2), number(0, 2), number(0, 4);
            number(entry.place, 4);
            out_ << entry.name;
        }
        const std::uint32_t size = static_cast<std::uint32_t>(out_.tellp()) - begin;
        number(0x06054b50, 4);
        number(0, 2), number(0, 2), number(entries_.size(), 2), number(entries_.size(), 2);
        number(size, 4), number(begin, 4), number(0, 2);
        out_.close();
        if (!out_) fail("cannot write " + path_);
        std::filesystem::rename(path_ + ".part", path_);
    }

  private:
    struct Entry {
        std::string name;
        std::uint32_t place, size, sum;
    };

    void number(std::uint64_t value, int bytes) {
        for (int i = 0; i < bytes; ++i) out_.put(static_cast<char>(value >> (8 * i)));
    }

    // What the header in front of a member and its entry in the list at the end have in common.
    void common(const Entry& entry) {
        number(20, 2), number(0, 2), number(0, 2), number(0, 2), number(0x21, 2);
        number(entry.sum, 4), number(entry.size, 4), number(entry.size, 4);
        number(entry.name.size(), 2), number(0, 2);
    }

    static std::uint32_t crc(const std::vector<std::uint8_t>& bytes) {
        static const std::vector<std::uint32_t> table = [] {
            std::vector<std::uint32_t> made(256);
            for (std::uint32_t i = 0; i < 256; ++i) {
                made[i] = i;
                for (int bit = 0; bit < 8; ++bit) made[i] = made[i] & 1 ? made[i] >> 1 ^ 0xedb88320u : made[i] >> 1;
            }
            return made;
        }();
        std::uint32_t sum = 0xffffffffu;
        for (std::uint8_t byte : bytes) sum = sum >> 8 ^ table[(sum ^ byte) & 0xff];
        return ~sum;
    }

    std::string path_;
    std::ofstream out_;
    std::vector<Entry> entries_;
};

class Capture {
  public:
    // path: of the capture, without an extension. ptx: the file that `nvcc -ptx` wrote for the kernel's source.
    Capture(std::string path, std::string ptx) : path_(std::move(path)), ptx_(std::move(ptx)) {
        if (!std::filesystem::exists(ptx_)) fail("there is no " + ptx_);
        const auto folder = std::filesystem::path(path_).parent_path();
        if (!folder.empty()) std::filesystem::create_directories(folder);
    }

    // Names memory of the device that the kernel uses. type: a name of numpy, such as "float16", "uint32", "int8".
    void buffer(const std::string& name, const void* device, const std::string& type, std::vector<std::size_t> shape) {
        std::size_t bytes = width(type);
        for (std::size_t size : shape) bytes *= size;
        buffers_.push_back({name, static_cast<const std::uint8_t*>(device), type, std::move(shape), bytes, {}});
    }

    // Launches the kernel, waits for it, and writes the capture. The arguments become what the parameters' types are.
    template <typename... P, typename... A>
    void launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared, A&&... arguments) {
        static_assert(sizeof...(P) == sizeof...(A), "as many arguments as the kernel has parameters");
        std::tuple<std::remove_cv_t<P>...> values(std::forward<A>(arguments)...);
        for (Buffer& one : buffers_) one.before = read(one);
        std::apply([&](auto&... value) {
            void* pointers[] = {static_cast<void*>(&value)..., nullptr};
            check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared, nullptr), "launch");
        }, values);
        check(cudaDeviceSynchronize(), "kernel");
        std::string params;
        std::apply([&](const auto&... value) { ((params += (params.empty() ? "" : ", ") + parameter(value)), ...); }, values);
        write(reinterpret_cast<const void*>(kernel), grid, block, shared, params);
    }

  private:
    struct Buffer {
        std::string name;
        const std::uint8_t* device;
        std::string type;
        std::vector<std::size_t> shape;
        std::size_t bytes;
        std::vector<std::uint8_t> before;
    };

    static std::size_t width(const std::string& type) {
        const std::size_t digits = type.find_first_of("0123456789");
        if (digits == std::string::npos) fail("type '" + type + "' has no width; e.g. float16");
        return std::stoul(type.substr(digits)) / 8;
    }

    static std::vector<std::uint8_t> read(const Buffer& one) {
        std::vector<std::uint8_t> bytes(one.bytes);
        check(cudaMemcpy(bytes.data(), one.device, one.bytes, cudaMemcpyDeviceToHost), one.name.c_str());
        return bytes;
    }

    template <typename T>
    std::string parameter(const T& value) const {
        if constexpr (std::is_pointer_v<T>) {
            for (const Buffer& one : buffers_)
                if (reinterpret_cast<const std::uint8_t*>(value) == one.device) return "{\"buffer\": \"" + one.name + "\"}";
            return "{\"u64\": " + std::to_string(reinterpret_cast<std::uint64_t>(value)) + "}";
        } else if constexpr (std::is_integral_v<T>) {
            return std::string("{\"") + (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T)) +
                   "\": " + std::to_string(value) + "}";
        } else {
            static_assert(std::is_trivially_copyable_v<T>);
            std::string hex;
            for (std::size_t i = 0; i < sizeof(T); ++i) {
                char digits[3];
                std::snprintf(digits, sizeof digits, "%02x", reinterpret_cast<const std::uint8_t*>(&value)[i]);
                hex += digits;
            }
            return "{\"bytes\": \"" + hex + "\"}";
        }
    }

    static std::string three(dim3 size) {
        return "[" + std::to_string(size.x) + ", " + std::to_string(size.y) + ", " + std::to_string(size.z) + "]";
    }

    // The compute capability of the GPU, whose arithmetic gave the result: 90 for an H100.
    static int chip() {
        int device = 0, major = 0, minor = 0;
        check(cudaGetDevice(&device), "device");
        check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
        check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "device");
        return 10 * major + minor;
    }

    void write(const void* kernel, dim3 grid, dim3 block, std::size_t shared, const std::string& params) const {
        const char* entry = nullptr;
        check(cudaFuncGetName(&entry, kernel), "the kernel's name");
        cudaFuncAttributes attributes{};
        check(cudaFuncGetAttributes(&attributes, kernel), "the kernel's attributes");
        Archive archive(path_ + ".npz");
        std::string buffers;
        for (const Buffer& one : buffers_) {
            const std::vector<std::uint8_t> after = read(one);
            const bool zero = one.before == std::vector<std::uint8_t>(one.bytes), output = after != one.before;
            if (!zero) archive.add("in|" + one.name, one.before);
            if (output) archive.add("out|" + one.name, after);
            std::string shape;
            for (std::size_t size : one.shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
            buffers += std::string(buffers.empty() ? "" : ",\n  ") + "\"" + one.name + "\": {\"bytes\": " +
                       std::to_string(one.bytes) + ", \"type\": \"" + one.type + "\", \"shape\": [" + shape +
                       "], \"address\": " + std::to_string(reinterpret_cast<std::uint64_t>(one.device)) +
                       ", \"zero\": " + (zero ? "true" : "false") + ", \"output\": " + (output ? "true" : "false") + "}";
        }
        archive.close();
        const auto text = std::filesystem::path(path_ + ".json").parent_path() / std::filesystem::path(ptx_).filename();
        if (!std::filesystem::exists(text) || !std::filesystem::equivalent(text, ptx_))
            std::filesystem::copy_file(ptx_, text, std::filesystem::copy_options::overwrite_existing);
        const std::string name = std::filesystem::path(path_).filename().string();
        std::ofstream out(path_ + ".json.part");
        out << "{\n \"name\": \"" << name << "\",\n \"ptx\": \"" << text.filename().string() << "\",\n \"entry\": \""
            << entry << "\",\n \"target\": \"sm_" << chip() << "\",\n \"grid\": " << three(grid)
            << ",\n \"block\": " << three(block) << ",\n \"dynamic_shared\": " << shared << ",\n \"params\": [" << params
            << "],\n \"buffers\": {\n  " << buffers << "\n },\n \"data\": \"" << name
            << ".npz\",\n \"counters\": {\"registers_per_thread\": " << attributes.numRegs << "}\n}\n";
        out.close();
        if (!out) fail("cannot write " + path_ + ".json");
        std::filesystem::rename(path_ + ".json.part", path_ + ".json");
    }

    std::string path_, ptx_;
    std::vector<Buffer> buffers_;
};

}  // namespace tcsim
