#include "meshwork/runtime/tensor/dlpack.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/copy.h"
#include "meshwork/runtime/tensor/dlpack_abi.h"
#include "meshwork/runtime/tensor/strided.h"

namespace meshwork {
namespace {

dlpack::DataType TypeOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * DTypeSize(dtype));
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
    case DType::kF16: return {dlpack::kFloat, bits, 1};
    case DType::kBF16: return {dlpack::kBfloat, bits, 1};
    case DType::kI32:
    case DType::kI64:
    case DType::kI8: return {dlpack::kInt, bits, 1};
    case DType::kU8: return {dlpack::kUInt, bits, 1};
    case DType::kBool: break;
  }
  return {dlpack::kBool, bits, 1};
}

// "uint8", "float32 in 4 lanes".
std::string ShowType(dlpack::DataType type) {
  constexpr std::string_view kNames[] = {"int", "uint", "float", "handle", "bfloat", "complex", "bool"};
  const std::string name = type.code < std::size(kNames)
                               ? fmt::format("{}{}", kNames[type.code], type.bits)
                               : fmt::format("of type {} with {} bits", type.code, type.bits);
  return type.lanes == 1 ? name : fmt::format("{} in {} lanes", name, type.lanes);
}

absl::StatusOr<Type> ReadType(const dlpack::TensorView& view) {
  if (view.device.type != dlpack::kCpu)
    return InvalidArgument(
        "FromDlpack: the tensor lies on a device of type {} ({}:{}); copy it to the CPU (1) first.",
        view.device.type, view.device.type, view.device.id);
  if (view.ndim < 0 || (view.ndim > 0 && view.shape == nullptr))
    return InvalidArgument("FromDlpack: the tensor has {} dims and {}; the structure is damaged.", view.ndim,
                           view.shape == nullptr ? "no shape" : "a shape");
  const auto dtype = std::find_if(std::begin(kAllDTypes), std::end(kAllDTypes), [&](DType dtype) {
    const dlpack::DataType type = TypeOf(dtype);
    return type.code == view.dtype.code && type.bits == view.dtype.bits && type.lanes == view.dtype.lanes;
  });
  if (dtype == std::end(kAllDTypes))
    return InvalidArgument(
        "FromDlpack: the elements are {}; convert them to float32, float64, float16, bfloat16, int32, int64, "
        "int8, uint8 or bool first.",
        ShowType(view.dtype));
  const Type type{*dtype, Shape(view.shape, view.shape + view.ndim)};
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckSize(type), "FromDlpack: "));
  return type;
}

// Whether the strides are those of a dense tensor, in the dims where they matter.
bool IsDense(const Shape& shape, const Shape& strides) {
  const Shape dense = DenseStrides(shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] > 1 && strides[d] != dense[d]) return false;
  return true;
}

// Whether all are 0 or 1: a bool of C++ must not hold anything else.
bool AreBools(const Tensor& x) {
  const auto* const bytes = static_cast<const uint8_t*>(x.raw());
  return std::all_of(bytes, bytes + x.bytes(), [](uint8_t b) { return b <= 1; });
}

void Release(dlpack::ManagedTensor* managed) {
  if (managed->deleter != nullptr) managed->deleter(managed);
}

// Keeps a tensor's elements while another library has them.
struct Lent {
  Tensor tensor;
  Shape shape, strides;
  dlpack::ManagedTensor managed = {};
};

}  // namespace

absl::StatusOr<Tensor> FromDlpack(DLManagedTensor* given) {
  if (given == nullptr) return InvalidArgument("FromDlpack: null; give a DLManagedTensor.");
  auto* const managed = reinterpret_cast<dlpack::ManagedTensor*>(given);
  const dlpack::TensorView& view = managed->dl_tensor;
  MESHWORK_ASSIGN_OR_RETURN(const Type type, ReadType(view));
  const Shape strides =
      view.strides == nullptr ? DenseStrides(type.shape) : Shape(view.strides, view.strides + view.ndim);
  const bool empty = type.num_elements() == 0;
  if (!empty && view.data == nullptr)
    return InvalidArgument("FromDlpack: a {} over no memory; give an address.", type.ToString());
  std::byte* const first = static_cast<std::byte*>(view.data) + (empty ? 0 : view.byte_offset);
  const bool aligned =
      reinterpret_cast<uintptr_t>(first) % static_cast<uintptr_t>(DTypeSize(type.dtype)) == 0;
  const bool shared = !empty && aligned && IsDense(type.shape, strides);
  Tensor tensor;
  if (shared) {
    tensor =
        Tensor(type, std::shared_ptr<void>(first, [](void*) {}));  // to look at; it does not own them yet
  } else {
    tensor = Tensor(type);
    if (!empty) CopyStrided(first, type.shape, strides, DTypeSize(type.dtype), tensor.raw());
  }
  if (type.dtype == BOOL && !AreBools(tensor))
    return InvalidArgument("FromDlpack: a {} has an element that is neither 0 nor 1; a bool is one of them.",
                           type.ToString());
  if (shared) return Tensor(type, std::shared_ptr<void>(first, [managed](void*) { Release(managed); }));
  Release(managed);
  return tensor;
}

absl::StatusOr<DLManagedTensor*> ToDlpack(const Tensor& x) {
  MESHWORK_RETURN_IF_ERROR(Annotate(x.status(), "ToDlpack: "));
  auto lent =
      std::make_unique<Lent>(Lent{.tensor = x, .shape = x.shape(), .strides = DenseStrides(x.shape())});
  lent->managed = {
      .dl_tensor = {.data = x.num_elements() == 0 ? nullptr : lent->tensor.raw(),
                    .device = {dlpack::kCpu, 0},
                    .ndim = static_cast<int32_t>(lent->shape.size()),
                    .dtype = TypeOf(x.dtype()),
                    .shape = lent->shape.data(),
                    .strides = lent->strides.data(),
                    .byte_offset = 0},
      .manager_ctx = lent.get(),
      .deleter = [](dlpack::ManagedTensor* self) { delete static_cast<Lent*>(self->manager_ctx); }};
  return reinterpret_cast<DLManagedTensor*>(&lent.release()->managed);
}

}  // namespace meshwork
