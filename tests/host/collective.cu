// A matrix product of a tcgen05 kernel that CUTLASS's collective builder makes, checked on the host in float64.
//
// Macros say which: USE_A, USE_B, USE_D, USE_ACC (element types), USE_A_LAYOUT, USE_B_LAYOUT, USE_MMA_M, USE_MMA_N, USE_TILE_K,
// USE_CLUSTER_M, USE_CLUSTER_N, USE_SPARSE (0 or 1), USE_SCALED (0, or 1: block scales, A and B are then types with scale
// factors), USE_UNPACKED (1: elements below 8 bits take a byte each in shared memory), USE_MAINLOOP and USE_EPILOGUE
// (schedules). tests/host/collective.py has the list. Arguments: m n k seed.
//
// All values are small numbers whose products and sums are exact in every type here, so that D must be equal, bit for bit.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <type_traits>
#include <vector>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/transform/device/transform_universal_adapter.hpp"
#include "cutlass/transform/kernel/sparse_gemm_compressor.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;
using namespace cutlass;
using A = USE_A;
using B = USE_B;
using D = USE_D;
using Sum = USE_ACC;

template <class T, class = void>
struct Plain {
  using Element = T;
};
template <class T>
struct Plain<T, std::void_t<typename T::ScaleFactorType>> {
  using Element = typename T::DataType;
};
using ElementA = typename Plain<A>::Element;
using ElementB = typename Plain<B>::Element;

constexpr int bits_a = sizeof_bits_v<ElementA>, bits_b = sizeof_bits_v<ElementB>, bits_d = sizeof_bits_v<D>;
constexpr bool packed = USE_UNPACKED == 0;  // whether elements below 8 bits stay packed in shared memory
constexpr int granule(int bits) { return bits < 8 && !packed ? 128 : 128 / bits; }
constexpr int align_a = granule(bits_a) * (USE_SPARSE && std::is_same_v<USE_A_LAYOUT, layout::RowMajor> ? 2 : 1);
constexpr int align_b = granule(bits_b), align_d = 128 / bits_d;

using OperatorClass = std::conditional_t<USE_SPARSE == 1,
    std::conditional_t<USE_SCALED == 1, arch::OpClassBlockScaledSparseTensorOp, arch::OpClassSparseTensorOp>,
    std::conditional_t<USE_SCALED == 1, arch::OpClassBlockScaledTensorOp, arch::OpClassTensorOp>>;
using MmaTile = Shape<Int<USE_MMA_M>, Int<USE_MMA_N>, Int<USE_TILE_K>>;
using CtaCluster = Shape<Int<USE_CLUSTER_M>, Int<USE_CLUSTER_N>, _1>;
using TheEpilogue = typename epilogue::collective::CollectiveBuilder<arch::Sm100, OperatorClass, MmaTile, CtaCluster,
    epilogue::collective::EpilogueTileAuto, Sum, Sum, D, layout::RowMajor, align_d, D, layout::RowMajor, align_d,
    epilogue::USE_EPILOGUE>::CollectiveOp;
using TheMainloop = typename gemm::collective::CollectiveBuilder<arch::Sm100, OperatorClass, A, USE_A_LAYOUT, align_a, B, USE_B_LAYOUT,
    align_b, Sum, MmaTile, CtaCluster, gemm::collective::StageCountAutoCarveoutEpi<TheEpilogue>, gemm::USE_MAINLOOP>::CollectiveOp;
using Problem = Shape<int, int, int, int>;
using TheKernel = gemm::kernel::GemmUniversal<Problem, TheMainloop, TheEpilogue, void>;
using TheGemm = gemm::device::GemmUniversalAdapter<TheKernel>;
using StrideA = gemm::TagToStrideA_t<USE_A_LAYOUT>;
using StrideB = typename TheKernel::StrideB;

static void must(bool good, char const* what) {
  if (!good) {
    std::printf("could not: %s\n", what);
    std::exit(2);
  }
}
static void must(cudaError_t code, char const* what) { must(code == cudaSuccess, what); }
static void must(Status status, char const* what) { must(status == Status::kSuccess, what); }

// Bytes on the host and on the device.
struct Buffer {
  std::vector<uint8_t> host;
  uint8_t* device = nullptr;
  explicit Buffer(size_t bytes, int filled = 0) : host(bytes, uint8_t(filled)) {
    must(cudaMalloc(&device, bytes), "allocate");
    to_device();
  }
  void to_device() { must(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice), "copy to the device"); }
  void to_host() { must(cudaMemcpy(host.data(), device, host.size(), cudaMemcpyDeviceToHost), "copy to the host"); }
};

template <class Element>
size_t bytes_of(size_t elements) {
  return (elements * sizeof_bits_v<Element> + 7) / 8 + 64;
}

// A function that gives a matrix, whatever its type, as doubles: [rows][columns].
template <class Element, class Layout>
std::vector<double> doubles(Buffer const& buffer, Layout layout, int rows, int columns) {
  auto tensor = make_tensor(recast_ptr<Element const>(buffer.host.data()), layout);
  std::vector<double> found(size_t(rows) * columns);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) found[size_t(i) * columns + j] = double(float(Element(tensor(i, j, 0))));
  return found;
}

template <class Element, class Layout>
void fill(Buffer& buffer, Layout layout, int rows, int columns, std::mt19937& draw, std::vector<float> const& values) {
  auto tensor = make_tensor(recast_ptr<Element>(buffer.host.data()), layout);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) tensor(i, j, 0) = Element(values[draw() % values.size()]);
  buffer.to_device();
}

int main(int arguments, char** given) {
  int const m = arguments > 1 ? std::atoi(given[1]) : 256, n = arguments > 2 ? std::atoi(given[2]) : 256;
  int const k = arguments > 3 ? std::atoi(given[3]) : 512;
  std::mt19937 draw(arguments > 4 ? std::atoi(given[4]) : 1);
  Problem problem{m, n, k, 1};
  bool const narrow = sizeof_bits_v<Sum> == 16 || sizeof_bits_v<D> == 16;
  std::vector<float> const values = narrow ? std::vector<float>{-1, 0, 1} : std::vector<float>{-3, -2, -1, 0, 1, 2, 3, 4};

  auto const shape_a = make_layout(make_shape(m, k, 1), make_cute_packed_stride(StrideA{}, {m, k, 1}));
  auto const shape_b = make_layout(make_shape(n, k, 1), make_cute_packed_stride(StrideB{}, {n, k, 1}));
  auto const shape_d = make_layout(make_shape(m, n, 1), make_cute_packed_stride(typename TheKernel::StrideD{}, {m, n, 1}));
  Buffer a(bytes_of<ElementA>(size_t(m) * k)), b(bytes_of<ElementB>(size_t(n) * k));
  Buffer c(bytes_of<D>(size_t(m) * n)), d(bytes_of<D>(size_t(m) * n), 0x5a);
  fill<ElementA>(a, shape_a, m, k, draw, values);
  fill<ElementB>(b, shape_b, n, k, draw, values);
  fill<D>(c, shape_d, m, n, draw, {-2, 0, 1, 5});

  using Words = typename TheMainloop::Arguments;
  Words words{};
  words.ptr_B = reinterpret_cast<decltype(words.ptr_B)>(b.device);
#if USE_SPARSE
  using Config = typename TheMainloop::SparseConfig;
  using Utility = transform::kernel::StructuredSparseCompressorUtility<Problem, ElementA, USE_A_LAYOUT, Config>;
  using Compressor = transform::device::TransformUniversalAdapter<
      transform::kernel::StructuredSparseCompressor<Problem, ElementA, USE_A_LAYOUT, Config, arch::Sm100>>;
  StrideA const stride_a = make_cute_packed_stride(StrideA{}, {m, k, 1});
  Utility utility(problem, stride_a);
  utility.structure_sparse_zero_mask_fill(a.host.data(), draw());
  a.to_device();
  Buffer stored(bytes_of<ElementA>(size_t(utility.get_tensorA_m_physical()) * utility.get_tensorA_k_physical()));
  Buffer metadata(size_t(utility.get_metadata_m_physical()) * utility.get_metadata_k_physical());
  KernelHardwareInfo hardware;
  hardware.sm_count = KernelHardwareInfo::query_device_multiprocessor_count(0);
  typename Compressor::Arguments compress{problem, {a.device, stride_a, stored.device, metadata.device}, {hardware}};
  Compressor compressor;
  Buffer space(Compressor::get_workspace_size(compress) + 16);
  must(compressor.can_implement(compress), "compress such a matrix");
  must(compressor.initialize(compress, space.device), "set up the compressor");
  must(compressor.run(), "compress");
  must(cudaDeviceSynchronize(), "compress");
  words.ptr_A = reinterpret_cast<decltype(words.ptr_A)>(stored.device);
  words.layout_a = Config::fill_layoutA(problem);
  words.ptr_E = reinterpret_cast<decltype(words.ptr_E)>(metadata.device);
  words.layout_e = Config::fill_layoutE(problem);
#else
  words.ptr_A = reinterpret_cast<decltype(words.ptr_A)>(a.device);
  words.dA = make_cute_packed_stride(StrideA{}, {m, k, 1});
#endif
  words.dB = make_cute_packed_stride(StrideB{}, {n, k, 1});
  std::vector<double> left = doubles<ElementA>(a, shape_a, m, k), right = doubles<ElementB>(b, shape_b, n, k);
#if USE_SCALED
  using Factor = typename A::ScaleFactorType;
  using Scales = typename TheMainloop::Sm1xxBlkScaledConfig;
  auto const layout_a = Scales::tile_atom_to_shape_SFA(problem);
  auto const layout_b = Scales::tile_atom_to_shape_SFB(problem);
  Buffer factors_a(bytes_of<Factor>(cosize(layout_a))), factors_b(bytes_of<Factor>(cosize(layout_b)));
  fill<Factor>(factors_a, layout_a, m, k, draw, {1, 2, 4});
  fill<Factor>(factors_b, layout_b, n, k, draw, {1, 2, 4});
  words.ptr_SFA = reinterpret_cast<decltype(words.ptr_SFA)>(factors_a.device);
  words.ptr_SFB = reinterpret_cast<decltype(words.ptr_SFB)>(factors_b.device);
  words.layout_SFA = layout_a;
  words.layout_SFB = layout_b;
  std::vector<double> const scale_a = doubles<Factor>(factors_a, layout_a, m, k);
  std::vector<double> const scale_b = doubles<Factor>(factors_b, layout_b, n, k);
  for (size_t i = 0; i < left.size(); ++i) left[i] *= scale_a[i];
  for (size_t i = 0; i < right.size(); ++i) right[i] *= scale_b[i];
#endif

  typename TheGemm::Arguments gemm_arguments{gemm::GemmUniversalMode::kGemm, problem, words,
      {{Sum(1), Sum(1)}, reinterpret_cast<D*>(c.device), make_cute_packed_stride(typename TheKernel::StrideC{}, {m, n, 1}),
       reinterpret_cast<D*>(d.device), make_cute_packed_stride(typename TheKernel::StrideD{}, {m, n, 1})}};
  TheGemm product;
  Buffer workspace(TheGemm::get_workspace_size(gemm_arguments) + 16);
  must(product.can_implement(gemm_arguments), "multiply such matrices");
  must(product.initialize(gemm_arguments, workspace.device), "set up the product");
  must(product.run(), "multiply");
  must(cudaDeviceSynchronize(), "multiply");
  d.to_host();

  std::vector<double> const before = doubles<D>(c, shape_d, m, n), after = doubles<D>(d, shape_d, m, n);
  long wrong = 0, nonzero = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = before[size_t(i) * n + j];
      double const *x = &left[size_t(i) * k], *y = &right[size_t(j) * k];
      for (int l = 0; l < k; ++l) sum += x[l] * y[l];
      nonzero += sum != 0;
      if (after[size_t(i) * n + j] != sum && wrong++ < 3)
        std::printf("D[%d][%d] is %g, not %g\n", i, j, after[size_t(i) * n + j], sum);
    }
  bool const passed = wrong == 0 && nonzero > 0;
  std::printf("%s: %ld of %ld elements differ\n", passed ? "Passed" : "Failed", wrong, long(m) * n);
  return passed ? 0 : 1;
}
