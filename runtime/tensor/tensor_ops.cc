// The functions of Tensor that make tensors out of numbers and of other tensors.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/convert.h"
#include "meshwork/ops/kernels/copy.h"
#include "meshwork/runtime/tensor/box.h"
#include "meshwork/runtime/tensor/strided.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {
namespace {

// Converts a position that may count from the end to one from the beginning; nullopt if that is not in [0,
// size).
std::optional<int64_t> IndexFromFront(int64_t at, int64_t size) {
  if (at < -size || at >= size) return std::nullopt;
  return at < 0 ? at + size : at;
}

absl::Status NoSuchIndex(int64_t at, size_t dim, const Type& type) {
  if (type.shape[dim] == 0)
    return InvalidArgument("Tensor: index {} in dim {} of a {}, which has no elements.", at, dim,
                           type.ToString());
  return InvalidArgument("Tensor: index {} in dim {} of a {}; indices go from {} to {} there.", at, dim,
                         type.ToString(), -type.shape[dim], type.shape[dim] - 1);
}

absl::Status NoSuchDim(int64_t dim, std::string_view whose, int64_t rank) {
  if (rank == 0) return InvalidArgument("Tensor: dim {} of {}, which has no dims.", dim, whose);
  return InvalidArgument("Tensor: dim {} of {}; dims go from {} to {}.", dim, whose, -rank, rank - 1);
}

struct SliceSteps {
  int64_t count, begin, step;
};

// The elements of a dim of `size` that a slice selects.
SliceSteps StepsOf(const TensorSlice& slice, int64_t size) {
  const bool forwards = slice.step > 0;
  // The positions at which a slice may begin and end; backwards it may end one before the first element.
  const int64_t low = forwards ? 0 : -1, high = forwards ? size : size - 1;
  const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at.has_value()) return otherwise;
    return std::clamp(*at < 0 ? std::max(*at, -size - 1) + size : *at, low, high);
  };
  const int64_t begin = place(slice.begin, forwards ? low : high);
  const int64_t end = place(slice.end, forwards ? high : low);
  const int64_t length = forwards ? end - begin : begin - end;
  // Steps are cut to the length of the dim, so that none overflows.
  const int64_t step = std::clamp(slice.step, -size - 1, size + 1);
  return {.count = length <= 0 ? 0 : (length - 1) / std::abs(step) + 1, .begin = begin, .step = step};
}

}  // namespace

Tensor Tensor::Full(Type type, double value) {
  Tensor tensor(std::move(type));
  if (!tensor.valid()) return tensor;
  DispatchAny(tensor.dtype(), [&](auto zero) {
    using T = decltype(zero);
    std::ranges::fill(tensor.mutable_values<T>(), ConvertTo<T>(value));
  });
  return tensor;
}

Tensor Tensor::Arange(DType dtype, double begin, double end, double step) {
  if (step == 0 || !std::isfinite(step) || !std::isfinite(begin) || !std::isfinite(end))
    return Invalid(
        {dtype, {0}},
        InvalidArgument("Tensor: Arange from {} to {} by {}; the numbers must be finite, and the step not 0.",
                        begin, end, step));
  const double count = std::max(0.0, std::ceil((end - begin) / step));
  if (count > 0x1p40)
    return Invalid(
        {dtype, {0}},
        InvalidArgument(
            "Tensor: Arange from {} to {} by {} has more elements than 2^40, the most there can be.", begin,
            end, step));
  Tensor tensor(Type{dtype, {static_cast<int64_t>(count)}});
  DispatchAny(dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::span<T> values = tensor.mutable_values<T>();
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = ConvertTo<T>(begin + static_cast<double>(i) * step);
  });
  return tensor;
}

Tensor Tensor::CopyOf(const Type& type, const void* data, const Shape& strides) {
  if (strides.size() != type.shape.size())
    return Invalid(type,
                   InvalidArgument("Tensor: {} for a {}; give one for each dim.",
                                   Count(static_cast<int64_t>(strides.size()), "stride"), type.ToString()));
  Tensor tensor(type);
  if (!tensor.valid() || type.num_elements() == 0) return tensor;
  if (data == nullptr)
    return Invalid(type, InvalidArgument("Tensor: a {} from no memory; give an address.", type.ToString()));
  CopyStrided(data, type.shape, strides, DTypeSize(type.dtype), tensor.raw());
  return tensor;
}

Tensor Tensor::FromMemory(const Type& type, const void* data) {
  if (absl::Status size = Annotate(CheckSize(type), "Tensor: "); !size.ok())
    return Invalid(type, std::move(size));
  Tensor tensor = CopyOf(type, data, DenseStrides(type.shape));
  if (!tensor.valid() || type.dtype != BOOL) return tensor;
  // A bool of C++ must not hold anything but 0 and 1.
  const auto* const bytes = static_cast<const uint8_t*>(tensor.raw());
  const uint8_t* const wrong = std::find_if(bytes, bytes + tensor.bytes(), [](uint8_t b) { return b > 1; });
  if (wrong == bytes + tensor.bytes()) return tensor;
  return Invalid(type, InvalidArgument("Tensor: element {} of a {} is {}; a bool is 0 or 1.", wrong - bytes,
                                       type.ToString(), *wrong));
}

Tensor Tensor::Concat(std::initializer_list<Tensor> parts, int64_t dim) {
  return Concat(std::span(parts.begin(), parts.size()), dim);
}

Tensor Tensor::Stack(std::initializer_list<Tensor> parts, int64_t dim) {
  return Stack(std::span(parts.begin(), parts.size()), dim);
}

Tensor Tensor::Concat(std::span<const Tensor> parts, int64_t dim) {
  if (parts.empty()) return Invalid({}, InvalidArgument("Tensor: Concat of no tensors; give at least one."));
  for (const Tensor& part : parts)
    if (!part.valid()) return part;
  Type type = parts[0].type();
  const std::optional<int64_t> along = IndexFromFront(dim, type.rank());
  if (!along.has_value()) return Invalid(type, NoSuchDim(dim, "a " + type.ToString(), type.rank()));
  const auto d = static_cast<size_t>(*along);
  type.shape[d] = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Type same = parts[i].type();
    if (same.rank() == type.rank()) same.shape[d] = type.shape[d];
    if (same != type)
      return Invalid(
          type, InvalidArgument("Tensor: Concat of a {} and a {} along dim {}; only the sizes of dim {} may "
                                "differ.",
                                parts[0].type().ToString(), parts[i].type().ToString(), d, d));
    type.shape[d] += parts[i].shape()[d];
  }
  Tensor whole(type);
  if (!whole.valid()) return whole;
  std::vector<BoxSteps> steps(type.shape.size());
  for (const Tensor& part : parts) {
    for (size_t k = 0; k < steps.size(); ++k) steps[k].count = part.shape()[k];
    const BoxCopy copy(steps, part.shape(), type.shape);
    copy.Copy(static_cast<const std::byte*>(part.raw()), whole.data_, DTypeSize(type.dtype), 0,
              copy.elements());
    steps[d].to += part.shape()[d];
  }
  return whole;
}

Tensor Tensor::Stack(std::span<const Tensor> parts, int64_t dim) {
  if (parts.empty()) return Invalid({}, InvalidArgument("Tensor: Stack of no tensors; give at least one."));
  const Type& type = parts[0].type();
  const std::optional<int64_t> along = IndexFromFront(dim, type.rank() + 1);
  if (!along.has_value()) return Invalid(type, NoSuchDim(dim, "the stack", type.rank() + 1));
  std::vector<Tensor> slabs;
  for (const Tensor& part : parts) {
    if (!part.valid()) return part;
    if (part.type() != type)
      return Invalid(type, InvalidArgument("Tensor: Stack of a {} and a {}; give tensors of one type.",
                                           type.ToString(), part.type().ToString()));
    Shape shape = type.shape;
    shape.insert(shape.begin() + *along, 1);
    slabs.push_back(part.Reshaped(shape));
  }
  return Concat(slabs, *along);
}

absl::StatusOr<int64_t> Tensor::OffsetOf(const Shape& index) const {
  MESHWORK_RETURN_IF_ERROR(status());
  if (index.size() != type_.shape.size())
    return InvalidArgument("Tensor: At({}) of a {}; give an index for each dim.", fmt::join(index, ", "),
                           type_.ToString());
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    const std::optional<int64_t> at = IndexFromFront(index[d], type_.shape[d]);
    if (!at.has_value()) return NoSuchIndex(index[d], d, type_);
    offset = offset * type_.shape[d] + *at;
  }
  return offset;
}

Tensor Tensor::operator[](int64_t i) const {
  if (!valid()) return *this;
  if (type_.rank() == 0)
    return Invalid(type_, InvalidArgument("Tensor: [{}] of a {}, which has no dims.", i, type_.ToString()));
  const std::optional<int64_t> at = IndexFromFront(i, type_.shape[0]);
  if (!at.has_value()) return Invalid(type_, NoSuchIndex(i, 0, type_));
  Tensor row = Rows(*at, *at + 1);
  row.type_.shape.erase(row.type_.shape.begin());
  return row;
}

Tensor Tensor::Sliced(const std::vector<TensorSlice>& slices) const {
  if (!valid()) return *this;
  if (slices.size() > type_.shape.size())
    return Invalid(type_,
                   InvalidArgument("Tensor: {} of a {}; give at most one for each dim.",
                                   Count(static_cast<int64_t>(slices.size()), "slice"), type_.ToString()));
  Type type = type_;
  Shape strides = DenseStrides(type_.shape);
  int64_t offset = 0;
  for (size_t d = 0; d < slices.size(); ++d) {
    if (slices[d].step == 0)
      return Invalid(type_,
                     InvalidArgument("Tensor: a slice of dim {} of a {} has step 0; steps are 1 or more, or "
                                     "-1 or less.",
                                     d, type_.ToString()));
    const SliceSteps steps = StepsOf(slices[d], type_.shape[d]);
    type.shape[d] = steps.count;
    if (steps.count > 0) offset += steps.begin * strides[d];
    strides[d] *= steps.step;
  }
  return CopyOf(type, data_ + offset * DTypeSize(type.dtype), strides);
}

Tensor Tensor::Transposed() const {
  std::vector<int64_t> dims(type_.shape.size());
  std::iota(dims.rbegin(), dims.rend(), 0);
  return Transposed(dims);
}

Tensor Tensor::Transposed(const std::vector<int64_t>& dims) const {
  if (!valid()) return *this;
  const Shape strides = DenseStrides(type_.shape);
  Type type{dtype(), {}};
  Shape source_strides;
  std::vector<bool> seen(type_.shape.size(), false);
  for (const int64_t dim : dims) {
    const std::optional<int64_t> d = IndexFromFront(dim, type_.rank());
    if (!d.has_value() || seen[static_cast<size_t>(*d)]) break;
    seen[static_cast<size_t>(*d)] = true;
    type.shape.push_back(type_.shape[static_cast<size_t>(*d)]);
    source_strides.push_back(strides[static_cast<size_t>(*d)]);
  }
  if (type.shape.size() != seen.size() || dims.size() != seen.size())
    return Invalid(
        type_, InvalidArgument("Tensor: a {} with its dims in the order [{}]; name each of its dims once.",
                               type_.ToString(), fmt::join(dims, ", ")));
  return CopyOf(type, data_, source_strides);
}

Tensor Tensor::Cast(DType dtype) const {
  if (!valid() || dtype == type_.dtype) return *this;
  Tensor cast(Type{dtype, type_.shape});
  DispatchAny(type_.dtype, [&](auto from) {
    DispatchAny(dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      std::ranges::transform(values<From>(), cast.mutable_values<To>().begin(),
                             [](From x) { return ConvertTo<To>(static_cast<Compute<From>>(x)); });
    });
  });
  return cast;
}

}  // namespace meshwork
