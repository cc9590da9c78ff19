// Convolutions.
#include "support/simulated_cudnn.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "fmt/format.h"
#include "support/simulated_numbers.h"
#include "support/simulated_world.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;

// The engines that the heuristic lists, the fastest first.
struct Engine {
  std::vector<CudnnNote> notes;
};
const std::vector<Engine>& Engines() {
  static const auto* const engines = [] {
    // More engines than a caller may want to look at.
    auto* const made = new std::vector<Engine>(20, {{CudnnNote::kTensorCore, CudnnNote::kNondeterministic}});
    made->push_back({{CudnnNote::kTensorCore, CudnnNote::kReducedPrecisionReduction}});
    made->push_back({{CudnnNote::kWinograd, CudnnNote::kWinograd4x4}});
    made->push_back({{CudnnNote::kTensorCore, CudnnNote::kDownConvertsInputs}});
    made->push_back({{CudnnNote::kFft}});
    made->push_back({{CudnnNote::kTensorCore}});
    made->push_back({});
    return made;
  }();
  return *engines;
}
constexpr int kTensorCores = 24, kPlain = 25;
constexpr int64_t kWorkspaceBytes = 1000;

size_t SizeOf(CudnnType type) {
  switch (type) {
    case CudnnType::kInt64:
    case CudnnType::kHandle:
    case CudnnType::kPointer:
    case CudnnType::kDescriptor: return 8;
    default: return 4;
  }
}

// The attribute's elements; empty: it has none of this type.
template <typename T>
std::vector<T> ValuesOf(const SimulatedDescriptor& descriptor, CudnnAttribute attribute) {
  const auto found = descriptor.attributes.find(attribute);
  if (found == descriptor.attributes.end() || SizeOf(found->second.type) != sizeof(T)) return {};
  std::vector<T> values(found->second.bytes.size() / sizeof(T));
  std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(T));
  return values;
}
template <typename T>
T ValueOf(const SimulatedDescriptor& descriptor, CudnnAttribute attribute, T none = {}) {
  const std::vector<T> values = ValuesOf<T>(descriptor, attribute);
  return values.size() == 1 ? values[0] : none;
}

int64_t CountOf(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// The strides of a dense tensor whose channels lie last.
Ints StridesOf(const Ints& sizes) {
  Ints strides(sizes.size());
  strides[1] = 1;
  int64_t stride = sizes[1];
  for (size_t d = sizes.size(); d-- > 2; stride *= sizes[d]) strides[d] = stride;
  strides[0] = stride;
  return strides;
}

struct Attributes {
  CudnnAttribute convolution, x, w, y, alpha, beta;
};
Attributes AttributesOf(CudnnDescriptorType kind) {
  using A = CudnnAttribute;
  if (kind == CudnnDescriptorType::kForward)
    return {A::kForwardConvolution, A::kForwardX,     A::kForwardW,
            A::kForwardY,           A::kForwardAlpha, A::kForwardBeta};
  if (kind == CudnnDescriptorType::kInputGrad)
    return {A::kInputGradConvolution, A::kInputGradX,     A::kInputGradW,
            A::kInputGradY,           A::kInputGradAlpha, A::kInputGradBeta};
  return {A::kFilterGradConvolution, A::kFilterGradX,     A::kFilterGradW,
          A::kFilterGradY,           A::kFilterGradAlpha, A::kFilterGradBeta};
}

bool Fits(const SimulatedConvolution& c) {
  const size_t rank = c.x.size(), spatial = rank - 2;
  if (rank < 4 || rank > 5 || c.w.size() != rank || c.y.size() != rank) return false;
  for (const Ints* list : {&c.strides, &c.dilations, &c.pre, &c.post})
    if (list->size() != spatial) return false;
  bool fits = c.x[0] == c.y[0] && c.w[0] == c.y[1] && c.w[1] > 0 && c.x[1] % c.w[1] == 0 &&
              c.w[0] % (c.x[1] / c.w[1]) == 0;
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t extent = (c.w[2 + d] - 1) * c.dilations[d] + 1;
    const int64_t room = c.x[2 + d] + c.pre[d] + c.post[d] - extent;
    fits &= c.pre[d] >= 0 && c.post[d] >= 0 && room >= 0 && c.y[2 + d] == room / c.strides[d] + 1;
  }
  return fits;
}

}  // namespace

std::array<int64_t, 3> SimulatedConvolution::bytes() const {
  const int64_t size = type == CudnnDataType::kBfloat16 ? 2 : 4;
  return {CountOf(x) * size, CountOf(w) * size, CountOf(y) * size};
}

void SimulatedConvolution::Play(bool tf32, std::byte* x_data, std::byte* w_data, std::byte* y_data) const {
  const cudaDataType_t number = type == CudnnDataType::kBfloat16 ? CUDA_R_16BF : CUDA_R_32F;
  const int64_t size = type == CudnnDataType::kBfloat16 ? 2 : 4;
  const auto read = [&](const std::byte* data, int64_t i) {
    const double value = ReadNumber(number, data + i * size);
    return tf32 ? RoundToTf32(value) : value;
  };
  const int64_t in_group = w[1], out_group = w[0] / (x[1] / w[1]);
  const Ints of_x = StridesOf(x), of_w = StridesOf(w), of_y = StridesOf(y);
  const bool makes_x = kind == CudnnDescriptorType::kInputGrad,
             makes_w = kind == CudnnDescriptorType::kFilterGrad;
  std::vector<double> sums(static_cast<size_t>(CountOf(makes_x ? x : makes_w ? w : y)));
  const int64_t taps = CountOf(Ints(w.begin() + 2, w.end()));
  for (int64_t i = 0; i < CountOf(y); ++i)
    for (int64_t k = 0; k < taps; ++k) {
      // i: in the order [n, spatial.., o].
      const int64_t o = i % y[1], group = o / out_group;
      int64_t rest = i / y[1], tap = k;
      int64_t at_x = 0, at_w = o * of_w[0];
      bool is_inside = true;
      for (size_t d = y.size(); d-- > 2;) {
        const int64_t t = tap % w[d],
                      place = rest % y[d] * strides[d - 2] - pre[d - 2] + t * dilations[d - 2];
        tap /= w[d];
        rest /= y[d];
        is_inside &= place >= 0 && place < x[d];
        at_x += place * of_x[d];
        at_w += t * of_w[d];
      }
      if (!is_inside) continue;
      at_x += rest * of_x[0] + group * in_group;
      for (int64_t c = 0; c < in_group; ++c) {
        const int64_t in_x = at_x + c, in_w = at_w + c;
        if (makes_x) sums[static_cast<size_t>(in_x)] += read(y_data, i) * read(w_data, in_w);
        else if (makes_w) sums[static_cast<size_t>(in_w)] += read(x_data, in_x) * read(y_data, i);
        else sums[static_cast<size_t>(i)] += read(x_data, in_x) * read(w_data, in_w);
      }
    }
  std::byte* const result = makes_x ? x_data : makes_w ? w_data : y_data;
  for (size_t i = 0; i < sums.size(); ++i)
    WriteNumber(number, sums[i], result + static_cast<int64_t>(i) * size);
}

size_t SimulatedWorld::cudnnGetVersion() { return 91900; }

const char* SimulatedWorld::cudnnGetErrorString(CudnnStatus status) {
  switch (status) {
    case CudnnStatus::kSuccess: return "CUDNN_STATUS_SUCCESS";
    case CudnnStatus::kBadParam: return "CUDNN_STATUS_BAD_PARAM";
    case CudnnStatus::kNotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CudnnStatus::kInternalError: return "CUDNN_STATUS_INTERNAL_ERROR";
    default: return "CUDNN_STATUS unknown";
  }
}

// ---- Handles and descriptors.

CudnnStatus SimulatedWorld::cudnnCreate(CudnnHandle** made) {
  int device = 0;
  if (Current(device) != CUDA_SUCCESS) return CudnnStatus::kInternalError;
  // The call allocates on the device.
  if (CheckNoCapture(device) != CUDA_SUCCESS) return CudnnStatus::kInternalError;
  const uintptr_t handle = NewHandle();
  cudnn_handles_[handle] = {.device = device};
  *made = reinterpret_cast<CudnnHandle*>(handle);
  return CudnnStatus::kSuccess;
}

CudnnStatus SimulatedWorld::cudnnDestroy(CudnnHandle* handle) {
  const bool is_there = cudnn_handles_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  return is_there ? CudnnStatus::kSuccess : CudnnStatus::kBadParam;
}

CudnnStatus SimulatedWorld::cudnnSetStream(CudnnHandle* handle, CUstream stream) {
  SimulatedCudnnHandle* const found = FindHandle(cudnn_handles_, handle);
  if (found == nullptr) return CudnnStatus::kBadParam;
  found->stream = stream;
  return CudnnStatus::kSuccess;
}

CudnnStatus SimulatedWorld::cudnnBackendCreateDescriptor(CudnnDescriptorType type, CudnnDescriptor* made) {
  const uintptr_t handle = NewHandle();
  cudnn_descriptors_[handle] = {.type = type};
  *made = reinterpret_cast<CudnnDescriptor>(handle);
  return CudnnStatus::kSuccess;
}

CudnnStatus SimulatedWorld::cudnnBackendDestroyDescriptor(CudnnDescriptor handle) {
  const bool is_there = cudnn_descriptors_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  return is_there ? CudnnStatus::kSuccess : CudnnStatus::kBadParam;
}

CudnnStatus SimulatedWorld::cudnnBackendSetAttribute(CudnnDescriptor handle, CudnnAttribute attribute,
                                                     CudnnType type, int64_t count, const void* values) {
  SimulatedDescriptor* const descriptor = FindHandle(cudnn_descriptors_, handle);
  if (descriptor == nullptr || descriptor->is_final || count < 1 || values == nullptr)
    return CudnnStatus::kBadParam;
  const auto* const bytes = static_cast<const std::byte*>(values);
  descriptor->attributes[attribute] = {type, {bytes, bytes + static_cast<size_t>(count) * SizeOf(type)}};
  return CudnnStatus::kSuccess;
}

// The convolution that an operation describes; nullopt: its descriptors do not fit together.
std::optional<SimulatedConvolution> SimulatedWorld::ConvolutionOf(const SimulatedDescriptor& operation) {
  const Attributes names = AttributesOf(operation.type);
  SimulatedConvolution made{.kind = operation.type};
  const auto descriptor_of = [&](CudnnAttribute attribute) -> const SimulatedDescriptor* {
    const SimulatedDescriptor* const found =
        FindHandle(cudnn_descriptors_, ValueOf<CudnnDescriptor>(operation, attribute));
    return found != nullptr && found->is_final ? found : nullptr;
  };
  size_t number = 0;
  for (const auto& [attribute, sizes] :
       {std::pair(names.x, &made.x), std::pair(names.w, &made.w), std::pair(names.y, &made.y)}) {
    const SimulatedDescriptor* const tensor = descriptor_of(attribute);
    if (tensor == nullptr || tensor->type != CudnnDescriptorType::kTensor) return std::nullopt;
    *sizes = ValuesOf<int64_t>(*tensor, CudnnAttribute::kTensorDimensions);
    if (sizes->size() < 4 || ValuesOf<int64_t>(*tensor, CudnnAttribute::kTensorStrides) != StridesOf(*sizes))
      return std::nullopt;
    made.type = ValueOf<CudnnDataType>(*tensor, CudnnAttribute::kTensorDataType);
    made.alignments[number] = ValueOf<int64_t>(*tensor, CudnnAttribute::kTensorAlignment, 1);
    // The variant pack names x, w and y by these.
    if (ValueOf<int64_t>(*tensor, CudnnAttribute::kTensorUniqueId) != static_cast<int64_t>(++number))
      return std::nullopt;
  }
  const SimulatedDescriptor* const windows = descriptor_of(names.convolution);
  if (windows == nullptr || ValueOf<float>(operation, names.alpha) != 1 ||
      ValueOf<float>(operation, names.beta, 1) != 0)
    return std::nullopt;
  made.strides = ValuesOf<int64_t>(*windows, CudnnAttribute::kConvolutionStrides);
  made.dilations = ValuesOf<int64_t>(*windows, CudnnAttribute::kConvolutionDilations);
  made.pre = ValuesOf<int64_t>(*windows, CudnnAttribute::kConvolutionPrePaddings);
  made.post = ValuesOf<int64_t>(*windows, CudnnAttribute::kConvolutionPostPaddings);
  const bool is_correlation = ValueOf(*windows, CudnnAttribute::kConvolutionMode, CudnnConvolutionMode{}) ==
                              CudnnConvolutionMode::kCrossCorrelation;
  if (!is_correlation || !Fits(made)) return std::nullopt;
  return made;
}

CudnnStatus SimulatedWorld::cudnnBackendFinalize(CudnnDescriptor handle) {
  SimulatedDescriptor* const descriptor = FindHandle(cudnn_descriptors_, handle);
  if (descriptor == nullptr || descriptor->is_final) return CudnnStatus::kBadParam;
  const auto named = [&](CudnnAttribute attribute) {
    return FindHandle(cudnn_descriptors_, ValueOf<CudnnDescriptor>(*descriptor, attribute));
  };
  const SimulatedDescriptor* of = nullptr;
  switch (descriptor->type) {
    case CudnnDescriptorType::kOperationGraph:
      of = named(CudnnAttribute::kGraphOperations);
      if (of != nullptr && of->is_final) descriptor->convolution = ConvolutionOf(*of);
      if (!descriptor->convolution.has_value()) {
        Find("cuDNN is given descriptors of a convolution that do not fit each other.");
        return CudnnStatus::kBadParam;
      }
      break;
    case CudnnDescriptorType::kEngineHeuristic:
      of = named(CudnnAttribute::kHeuristicOperationGraph);
      if (of == nullptr || !of->is_final) return CudnnStatus::kBadParam;
      descriptor->convolution = of->convolution;
      break;
    case CudnnDescriptorType::kExecutionPlan:
      of = named(CudnnAttribute::kPlanEngineConfig);
      if (of == nullptr || !of->is_final) return CudnnStatus::kBadParam;
      descriptor->convolution = of->convolution;
      descriptor->engine = of->engine;
      // The plain engine takes f32 alone.
      if (of->engine == kPlain && of->convolution->type == CudnnDataType::kBfloat16)
        return CudnnStatus::kNotSupported;
      break;
    default: break;
  }
  descriptor->is_final = true;
  return CudnnStatus::kSuccess;
}

CudnnStatus SimulatedWorld::cudnnBackendGetAttribute(CudnnDescriptor handle, CudnnAttribute attribute,
                                                     CudnnType type, int64_t most, int64_t* count,
                                                     void* values) {
  SimulatedDescriptor* const descriptor = FindHandle(cudnn_descriptors_, handle);
  if (descriptor == nullptr || !descriptor->is_final) return CudnnStatus::kBadParam;
  const auto fill = [&](size_t i, int engine) {
    CudnnDescriptor made = nullptr;
    std::memcpy(&made, static_cast<std::byte*>(values) + i * sizeof(made), sizeof(made));
    SimulatedDescriptor* const found = FindHandle(cudnn_descriptors_, made);
    if (found == nullptr || found->is_final) return false;
    found->is_final = true;
    found->convolution = descriptor->convolution;
    found->engine = engine;
    return true;
  };
  switch (attribute) {
    case CudnnAttribute::kHeuristicResults: {
      *count = 0;
      if (most > 0 && options.declined_convolutions > 0 &&
          ++num_cudnn_heuristics_ % options.declined_convolutions == 0)
        return CudnnStatus::kSuccess;
      const bool is_fallback = ValueOf(*descriptor, CudnnAttribute::kHeuristicMode, CudnnHeuristicMode::kA) ==
                               CudnnHeuristicMode::kFallback;
      if (is_fallback) return CudnnStatus::kNotSupported;
      // A caller that asks for no engines gets their number.
      if (most == 0) *count = std::ssize(Engines());
      for (size_t e = 0; e < Engines().size() && *count < most; ++e, ++*count)
        if (!fill(e, static_cast<int>(e))) return CudnnStatus::kBadParam;
      return CudnnStatus::kSuccess;
    }
    case CudnnAttribute::kEngineConfigEngine:
      *count = 1;
      return fill(0, descriptor->engine) ? CudnnStatus::kSuccess : CudnnStatus::kBadParam;
    case CudnnAttribute::kEngineNumericalNotes: {
      const std::vector<CudnnNote>& notes = Engines()[static_cast<size_t>(descriptor->engine)].notes;
      *count = std::ssize(notes);
      if (type != CudnnType::kNumericalNote || most < *count) return CudnnStatus::kBadParam;
      std::copy(notes.begin(), notes.end(), static_cast<CudnnNote*>(values));
      return CudnnStatus::kSuccess;
    }
    case CudnnAttribute::kPlanWorkspaceSize: {
      const int64_t bytes = descriptor->convolution->x[0] > 1 ? kWorkspaceBytes : 0;
      *count = 1;
      std::memcpy(values, &bytes, sizeof(bytes));
      return CudnnStatus::kSuccess;
    }
    default: return CudnnStatus::kBadParam;
  }
}

// ---- Convolutions.

CudnnStatus SimulatedWorld::cudnnBackendExecute(CudnnHandle* handle, CudnnDescriptor plan_handle,
                                                CudnnDescriptor pack_handle) {
  const SimulatedCudnnHandle* const found = FindHandle(cudnn_handles_, handle);
  const SimulatedDescriptor* const plan = FindHandle(cudnn_descriptors_, plan_handle);
  const SimulatedDescriptor* const pack = FindHandle(cudnn_descriptors_, pack_handle);
  if (found == nullptr || plan == nullptr || pack == nullptr || !plan->is_final || !pack->is_final ||
      plan->type != CudnnDescriptorType::kExecutionPlan)
    return CudnnStatus::kBadParam;
  SimulatedStream* stream = nullptr;
  int current = 0;
  if (StreamOf(found->stream, stream) != CUDA_SUCCESS || Current(current) != CUDA_SUCCESS)
    return CudnnStatus::kExecutionFailed;
  const int device = stream->device;
  const auto pointers = ValuesOf<std::byte*>(*pack, CudnnAttribute::kPackPointers);
  if (device != found->device || device != current || pointers.size() != 3 ||
      ValuesOf<int64_t>(*pack, CudnnAttribute::kPackUniqueIds) != Ints{1, 2, 3})
    return CudnnStatus::kBadParam;
  const SimulatedConvolution& convolution = *plan->convolution;
  const int engine = plan->engine;
  if (engine != kTensorCores && engine != kPlain)
    Find("cuDNN may add in any order, in less than f32, or transform before it multiplies.");
  LibraryWork work{.who = fmt::format("a convolution on GPU {}", device)};
  const size_t result = convolution.kind == CudnnDescriptorType::kInputGrad    ? 0
                        : convolution.kind == CudnnDescriptorType::kFilterGrad ? 1
                                                                               : 2;
  for (size_t i = 0; i < 3; ++i) {
    const LibraryWork::Place place{reinterpret_cast<uintptr_t>(pointers[i]), convolution.bytes()[i]};
    if (place.address % static_cast<uintptr_t>(convolution.alignments[i]) != 0)
      Find(fmt::format("{}: {} is less aligned than its engine was chosen for.", work.who, "xwy"[i]));
    if (i == result) work.result = place;
    else work.operands.push_back(place);
  }
  if (convolution.x[0] > 1)
    work.workspace = {reinterpret_cast<uintptr_t>(ValueOf<void*>(*pack, CudnnAttribute::kPackWorkspace)),
                      kWorkspaceBytes};
  work.is_there = [this, of = reinterpret_cast<uintptr_t>(handle)] { return cudnn_handles_.contains(of); };
  const bool is_tf32 = engine == kTensorCores && convolution.type == CudnnDataType::kFloat32;
  work.run = [convolution, is_tf32, pointers] {
    convolution.Play(is_tf32, pointers[0], pointers[1], pointers[2]);
  };
  ++num_convolutions;
  EnqueueLibrary(*stream, std::move(work));
  return CudnnStatus::kSuccess;
}

}  // namespace meshwork
