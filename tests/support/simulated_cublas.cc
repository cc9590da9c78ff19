// Products of matrices.
#include "support/simulated_cublas.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "fmt/format.h"
#include "support/simulated_numbers.h"
#include "support/simulated_world.h"

namespace meshwork {
namespace {

constexpr uint64_t kAlgorithm = 0x616c676f;

int64_t SizeOf(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_16BF ? 2 : 4; }

// Element (row, column) of matrix `matrix`.
int64_t PlaceOf(const SimulatedLayout& layout, int64_t matrix, int64_t row, int64_t column) {
  return (matrix * layout.batch_stride + column * layout.column_stride + row) * SizeOf(layout.type);
}

template <typename T>
bool Take(const void* value, size_t bytes, T& to) {
  if (value == nullptr || bytes != sizeof(T)) return false;
  std::memcpy(&to, value, sizeof(T));
  return true;
}

// An algorithm holds this hash of the descriptors for which it was chosen.
uint64_t HashOf(const SimulatedProduct& product) {
  uint64_t hash = static_cast<uint64_t>(product.operation.compute);
  const auto add = [&](int64_t x) { hash = (hash ^ static_cast<uint64_t>(x)) * 0x9e3779b97f4a7c15u; };
  add(product.operation.transpose_a);
  add(product.operation.transpose_b);
  for (const SimulatedLayout* layout : {&product.a, &product.b, &product.c, &product.d})
    for (const int64_t x : {int64_t{layout->type}, layout->rows, layout->columns, layout->column_stride,
                            layout->batch, layout->batch_stride})
      add(x);
  return hash;
}

bool IsKnown(const SimulatedOperation& operation, cudaDataType_t type) {
  switch (operation.compute) {
    case CUBLAS_COMPUTE_32F:
      return operation.scale == CUDA_R_32F && (type == CUDA_R_32F || type == CUDA_R_16BF);
    case CUBLAS_COMPUTE_32F_FAST_TF32: return operation.scale == CUDA_R_32F && type == CUDA_R_32F;
    case CUBLAS_COMPUTE_64F: return operation.scale == CUDA_R_64F && type == CUDA_R_64F;
    default: return false;
  }
}

}  // namespace

int64_t SimulatedLayout::bytes() const {
  return ((batch - 1) * batch_stride + (columns - 1) * column_stride + rows) * SizeOf(type);
}

void SimulatedProduct::Play(double alpha, const std::byte* a_data, const std::byte* b_data, double beta,
                            const std::byte* c_data, std::byte* d_data) const {
  const bool is_tf32 = operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto element = [&](const SimulatedLayout& layout, const std::byte* data, bool transposes,
                           int64_t matrix, int64_t row, int64_t column) {
    if (transposes) std::swap(row, column);
    const double x = ReadNumber(layout.type, data + PlaceOf(layout, matrix, row, column));
    return is_tf32 ? RoundToTf32(x) : x;
  };
  for (int64_t matrix = 0; matrix < d.batch; ++matrix)
    for (int64_t column = 0; column < d.columns; ++column)
      for (int64_t row = 0; row < d.rows; ++row) {
        double sum = 0;
        for (int64_t l = 0; l < k(); ++l)
          sum += element(a, a_data, operation.transpose_a, matrix, row, l) *
                 element(b, b_data, operation.transpose_b, matrix, l, column);
        sum *= alpha;
        if (beta != 0) sum += beta * ReadNumber(c.type, c_data + PlaceOf(c, matrix, row, column));
        WriteNumber(d.type, sum, d_data + PlaceOf(d, matrix, row, column));
      }
}

size_t SimulatedWorld::cublasLtGetVersion() { return 130001; }

const char* SimulatedWorld::cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    default: return "CUBLAS_STATUS unknown";
  }
}

// ---- Handles and descriptors.

cublasStatus_t SimulatedWorld::cublasLtCreate(cublasLtHandle_t* made) {
  int device = 0;
  if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (Current(device) != CUDA_SUCCESS) return CUBLAS_STATUS_NOT_INITIALIZED;
  // The call allocates on the device.
  if (CheckNoCapture(device) != CUDA_SUCCESS) return CUBLAS_STATUS_ALLOC_FAILED;
  const uintptr_t handle = NewHandle();
  cublas_handles_[handle] = device;
  *made = reinterpret_cast<cublasLtHandle_t>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtDestroy(cublasLtHandle_t handle) {
  const bool is_there = cublas_handles_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  return is_there ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made,
                                                        cublasComputeType_t compute, cudaDataType_t scale) {
  if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const uintptr_t handle = NewHandle();
  operations_[handle] = {.compute = compute, .scale = scale};
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  const bool is_there = operations_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  return is_there ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                              cublasLtMatmulDescAttributes_t attribute,
                                                              const void* value, size_t bytes) {
  SimulatedOperation* const operation = FindHandle(operations_, handle);
  int32_t number = 0;
  const bool is_a = attribute == CUBLASLT_MATMUL_DESC_TRANSA;
  if (operation == nullptr || (!is_a && attribute != CUBLASLT_MATMUL_DESC_TRANSB) ||
      !Take(value, bytes, number) || (number != CUBLAS_OP_N && number != CUBLAS_OP_T))
    return CUBLAS_STATUS_INVALID_VALUE;
  (is_a ? operation->transpose_a : operation->transpose_b) = number == CUBLAS_OP_T;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                                          uint64_t rows, uint64_t columns, int64_t stride) {
  const auto whole_rows = static_cast<int64_t>(rows), whole_columns = static_cast<int64_t>(columns);
  if (made == nullptr || whole_rows < 1 || whole_columns < 1 || stride < whole_rows)
    return CUBLAS_STATUS_INVALID_VALUE;
  const uintptr_t handle = NewHandle();
  layouts_[handle] = {.type = type, .rows = whole_rows, .columns = whole_columns, .column_stride = stride};
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  const bool is_there = layouts_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  return is_there ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t SimulatedWorld::cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                                const void* value, size_t bytes) {
  SimulatedLayout* const layout = FindHandle(layouts_, handle);
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return Take(value, bytes, layout->batch_stride) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  int32_t batch = 0;
  if (attribute != CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT || !Take(value, bytes, batch) || batch < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  layout->batch = batch;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const uintptr_t handle = NewHandle();
  preferences_[handle] = {};
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  const bool is_there = preferences_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  return is_there ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t handle, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
    size_t bytes) {
  SimulatedPreference* const preference = FindHandle(preferences_, handle);
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto take = [&](auto& to) {
    return Take(value, bytes, to) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return take(preference->workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return take(preference->reductions);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return take(preference->alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return take(preference->alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return take(preference->alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return take(preference->alignments[3]);
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
}

// ---- Products.

std::optional<SimulatedProduct> SimulatedWorld::ProductOf(cublasLtMatmulDesc_t operation,
                                                          cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                          cublasLtMatrixLayout_t c,
                                                          cublasLtMatrixLayout_t d) {
  const SimulatedOperation* const found = FindHandle(operations_, operation);
  if (found == nullptr) return std::nullopt;
  SimulatedProduct product{.operation = *found, .a = {}, .b = {}, .c = {}, .d = {}};
  for (const auto& [handle, to] : {std::pair(a, &product.a), std::pair(b, &product.b),
                                   std::pair(c, &product.c), std::pair(d, &product.d)}) {
    const SimulatedLayout* const layout = FindHandle(layouts_, handle);
    if (layout == nullptr || !IsKnown(*found, layout->type)) return std::nullopt;
    *to = *layout;
  }
  const SimulatedLayout &of_a = product.a, &of_b = product.b, &of_d = product.d;
  const int64_t m = found->transpose_a ? of_a.columns : of_a.rows;
  const int64_t n = found->transpose_b ? of_b.rows : of_b.columns;
  const int64_t k = found->transpose_b ? of_b.columns : of_b.rows;
  const bool fits = m == of_d.rows && n == of_d.columns && k == product.k() && product.c == of_d &&
                    of_a.type == of_d.type && of_b.type == of_d.type && of_a.batch == of_d.batch &&
                    of_b.batch == of_d.batch;
  // Results of a batch must not overlap.
  const bool is_apart =
      of_d.batch == 1 || of_d.batch_stride >= (of_d.columns - 1) * of_d.column_stride + of_d.rows;
  if (!fits || !is_apart) return std::nullopt;
  return product;
}

cublasStatus_t SimulatedWorld::cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference_handle, int most, cublasLtMatmulHeuristicResult_t* results,
    int* num_results) {
  if (results == nullptr || num_results == nullptr || most < 1) return CUBLAS_STATUS_INVALID_VALUE;
  *num_results = 0;
  const std::optional<SimulatedProduct> product = ProductOf(operation, a, b, c, d);
  const SimulatedPreference* const preference = FindHandle(preferences_, preference_handle);
  if (FindHandle(cublas_handles_, handle) == nullptr || !product.has_value() || preference == nullptr) {
    Find("cuBLASLt is asked for an algorithm by descriptors that do not fit each other.");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if ((preference->reductions &
       (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0)
    Find("cuBLASLt may add in any order, or round in between.");
  if (options.declined_products > 0 && ++num_heuristics_ % options.declined_products == 0)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  cublasLtMatmulHeuristicResult_t& result = results[0];
  result = {};
  // Products with long sums use a workspace, as far as they may.
  result.workspaceSize = product->k() < 3 ? 0 : std::min<size_t>(preference->workspace_bytes, 1000);
  result.state = CUBLAS_STATUS_SUCCESS;
  uint64_t alignments = 0;
  for (size_t i = 0; i < 4; ++i) alignments |= uint64_t{preference->alignments[i]} << (16 * i);
  const uint64_t data[] = {kAlgorithm, HashOf(*product), alignments, result.workspaceSize};
  std::copy(std::begin(data), std::end(data), result.algo.data);
  *num_results = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t SimulatedWorld::cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              const void* alpha, const void* a,
                                              cublasLtMatrixLayout_t layout_a, const void* b,
                                              cublasLtMatrixLayout_t layout_b, const void* beta,
                                              const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                                              cublasLtMatrixLayout_t layout_d,
                                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                              size_t workspace_bytes, cudaStream_t stream_handle) {
  const int* const device_of_handle = FindHandle(cublas_handles_, handle);
  if (device_of_handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  SimulatedStream* stream = nullptr;
  int current = 0;
  if (StreamOf(stream_handle, stream) != CUDA_SUCCESS || Current(current) != CUDA_SUCCESS)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  const std::optional<SimulatedProduct> product =
      ProductOf(operation, layout_a, layout_b, layout_c, layout_d);
  const int device = stream->device;
  if (device != *device_of_handle || device != current || !product.has_value() || alpha == nullptr ||
      beta == nullptr || algorithm == nullptr || algorithm->data[0] != kAlgorithm ||
      algorithm->data[1] != HashOf(*product) || algorithm->data[3] > workspace_bytes ||
      (algorithm->data[3] > 0 && reinterpret_cast<uintptr_t>(workspace) % 256 != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto* const factors_type = &product->operation.scale;
  const auto factor = [&](const void* at) {
    return ReadNumber(*factors_type, static_cast<const std::byte*>(at));
  };
  const double by = factor(alpha), adds = factor(beta);

  LibraryWork work{.who = fmt::format("a product on GPU {}", device)};
  const auto place = [](const void* at, int64_t bytes) {
    return LibraryWork::Place{reinterpret_cast<uintptr_t>(at), bytes};
  };
  const LibraryWork::Place places[] = {place(a, product->a.bytes()), place(b, product->b.bytes()),
                                       place(c, product->c.bytes()), place(d, product->d.bytes())};
  for (size_t i = 0; i < std::size(places); ++i)
    if (places[i].address % (algorithm->data[2] >> (16 * i) & 0xffff) != 0)
      Find(fmt::format("{}: matrix {} is less aligned than its algorithm was chosen for.", work.who,
                       "abcd"[i]));
  work.operands = {places[0], places[1]};
  if (c != d) work.operands.push_back(places[2]);
  work.result = places[3];
  work.workspace = {reinterpret_cast<uintptr_t>(workspace), static_cast<int64_t>(algorithm->data[3])};
  work.is_there = [this, of = reinterpret_cast<uintptr_t>(handle)] { return cublas_handles_.contains(of); };
  work.run = [product = *product, by, adds, a, b, c, d] {
    product.Play(by, static_cast<const std::byte*>(a), static_cast<const std::byte*>(b), adds,
                 static_cast<const std::byte*>(c), static_cast<std::byte*>(d));
  };
  ++num_products;
  EnqueueLibrary(*stream, std::move(work));
  return CUBLAS_STATUS_SUCCESS;
}

// ---- Work that libraries enqueue.

void SimulatedWorld::EnqueueLibrary(SimulatedStream& stream, LibraryWork work) {
  using Place = LibraryWork::Place;
  const auto overlap = [](const Place& x, const Place& y) {
    return x.address < y.address + static_cast<uintptr_t>(y.bytes) &&
           y.address < x.address + static_cast<uintptr_t>(x.bytes);
  };
  std::vector<Place> places = work.operands;
  places.push_back(work.result);
  for (const Place& operand : work.operands)
    if (overlap(operand, work.result)) Find(fmt::format("{} is written over an operand.", work.who));
  if (work.workspace.bytes > 0) {
    for (const Place& place : places)
      if (overlap(place, work.workspace)) Find(fmt::format("{} works where a tensor lies.", work.who));
    places.push_back(work.workspace);
  }
  const int device = stream.device;
  const auto are_there = [this, who = work.who, places, device](bool is_enqueued) {
    return std::all_of(places.begin(), places.end(), [&](const Place& at) {
      return memory.Check(who, device, at.address, at.bytes, is_enqueued);
    });
  };
  if (!are_there(true)) return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
  Enqueue(stream, [=, this] {
    if (!work.is_there()) {
      Find(fmt::format("{} runs after its handle was destroyed.", work.who));
      return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    if (!are_there(false)) return Lose(device, CUDA_ERROR_ILLEGAL_ADDRESS);
    if (FailsWork(device)) return;
    if (work.workspace.bytes > 0)
      std::memset(reinterpret_cast<void*>(work.workspace.address), 0xCC,
                  static_cast<size_t>(work.workspace.bytes));
    work.run();
  });
}

}  // namespace meshwork
