// Tensor: a dense, row-major array in host memory. Inputs and outputs of programs are Tensors.
//
//   Tensor x = Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6});
//   float first = x.values<float>()[0];
//   double last = x.At({-1, -1}).value();                  // 6
//   Tensor y = x.Sliced({{}, {1, 3}}).Transposed();        // [[2, 5], [3, 6]]
//   std::string text = x.ToString();                       // as NumPy prints it; runtime/tensor/tensor_text.h
//
// Copies of a Tensor share the elements (as in NumPy), so passing tensors around is cheap. Concurrent reads are
// safe; a writer needs the tensor to itself. A Tensor is always dense: its elements lie in one piece, in order. Data
// that is not dense (a column of a matrix, an image with padded rows) is copied by FromStrided.
//
// A mistake (From with too few values, Rows beyond the end) gives an invalid tensor, whose status() says what is wrong.
// Tensors made from it are invalid for the same reason, and functions that get such a tensor (of a session, a file)
// report the mistake.
//
// Comparing tensors: runtime/tensor/tensor_compare.h. Files: storage/npy.h, storage/safetensors.h. Other libraries'
// tensors: runtime/tensor/dlpack.h.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/type.h"

namespace meshwork {

struct TensorTextOptions;  // runtime/tensor/tensor_text.h

// The C++ types of elements (DTypeOf).
template <typename T>
concept TensorElement = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, BFloat16> ||
    std::same_as<T, Float16> || std::same_as<T, int32_t> || std::same_as<T, int64_t> ||
    std::same_as<T, int8_t> || std::same_as<T, uint8_t> || std::same_as<T, bool>;

// The part of a dim that a slice takes, as in NumPy's x[begin:end:step]: every step-th element from `begin` on, before
// `end`. Negative positions count from the end of the dim; positions beyond the dim are moved to its border; nullopt
// means as far as the dim goes.
struct TensorSlice {
  std::optional<int64_t> begin = {}, end = {};
  int64_t step = 1;  // if it is negative, backwards; not 0
};

class Tensor {
 public:
  Tensor() = default;  // a scalar f32 without storage; valid() is false
  // A scalar: Tensor(0.1f) is an f32[]. Implicit, so that numbers can be fed: session.Run({{"rate", 0.1f}}).
  template <TensorElement T>
  Tensor(T value);  // NOLINT(google-explicit-constructor)
  // Uninitialised elements, 64-byte aligned. Invalid: negative sizes, more than 2^40 elements. Throws
  // std::bad_alloc if there is not enough memory.
  explicit Tensor(Type type);
  // Over memory of at least type.bytes(), released with the last copy. Invalid: no memory; an address that is
  // no multiple of the element's size; a type as above.
  Tensor(Type type, std::shared_ptr<void> storage);
  static Tensor Zeros(Type type);
  // `value` everywhere, rounded as Cast does.
  static Tensor Full(Type type, double value);
  // begin, begin + step, … before `end`, computed in double and rounded as Cast does. Invalid: a step of 0, or one that
  // is not finite; more than 2^40 elements.
  static Tensor Arange(DType dtype, double begin, double end, double step = 1);
  // Copies of these values. Invalid: values.size() is not the number of elements of `shape`.
  template <typename T>
  static Tensor From(const Shape& shape, const std::vector<T>& values);
  template <typename T>
  static Tensor From(const Shape& shape, std::initializer_list<T> values);
  // The same from a span, an array or other values that lie in one piece: Tensor::From<float>({2, 3}, span).
  template <typename T, typename Values>
  requires std::is_convertible_v<const Values&, std::span<const T>>
  static Tensor From(const Shape& shape, const Values& values);
  // A copy of the type.bytes() bytes at `data`, which may lie anywhere. Invalid: no memory; a bool other than 0 and 1.
  static Tensor FromMemory(const Type& type, const void* data);
  // A copy of elements that lie strided: element [i, j] at data + i * strides[0] + j * strides[1]. Strides are in
  // elements and may be 0 or negative. Invalid: not a stride per dim; no memory.
  template <TensorElement T>
  static Tensor FromStrided(const T* data, const Shape& shape, const Shape& strides);
  // Joins the parts, in order, along a dim that they have (Concat) or along a new one (Stack). Negative dims count from
  // the end. Invalid: no parts; dtypes or shapes that differ (for Concat, in other dims than `dim`); no such dim; an
  // invalid part.
  static Tensor Concat(std::span<const Tensor> parts, int64_t dim);
  static Tensor Concat(std::initializer_list<Tensor> parts, int64_t dim);
  static Tensor Stack(std::span<const Tensor> parts, int64_t dim = 0);
  static Tensor Stack(std::initializer_list<Tensor> parts, int64_t dim = 0);

  // Why the tensor is invalid; OK if it is valid.
  absl::Status status() const;
  bool valid() const { return storage_ != nullptr; }
  const Type& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t num_elements() const { return type_.num_elements(); }
  int64_t bytes() const { return type_.bytes(); }

  void* raw() { return data_; }
  const void* raw() const { return data_; }
  // The elements in row-major order. T: float, double, BFloat16, Float16, int32_t, int64_t, int8_t, uint8_t or bool,
  // for f32, f64, bf16, f16, i32, i64, i8, u8 and bool. Like StatusOr's value(), throws absl::BadStatusOrAccess if T is
  // another type or the tensor is invalid.
  template <typename T>
  std::span<T> mutable_values();
  template <typename T>
  std::span<const T> values() const;
  // The same, with that error as a status.
  template <typename T>
  absl::StatusOr<std::span<T>> TryMutableValues();
  template <typename T>
  absl::StatusOr<std::span<const T>> TryValues() const;

  // The element at `index`, a position per dim; negative ones count from the end. T: double, which every dtype is
  // converted to, or the type of the elements. Errors: status(); no such element; T is another type.
  template <TensorElement T = double>
  absl::StatusOr<T> At(const Shape& index) const;
  // The only element, as double. Errors: status(); no element or more than one.
  absl::StatusOr<double> Scalar() const;

  // Rows [begin, end) of dim 0, sharing the elements. Invalid: no dims, begin < 0, begin > end, end > rows.
  Tensor Rows(int64_t begin, int64_t end) const;
  // Row `i` of dim 0 without that dim, sharing the elements; negative i counts from the end. Invalid: no such row.
  Tensor operator[](int64_t i) const;
  // The same elements in another shape, sharing them. Invalid: the shape has another number of elements.
  Tensor Reshaped(const Shape& shape) const;
  // A copy of the elements that the slices select: slices[d] of dim d, and all of a dim without a slice. Invalid: more
  // slices than dims; a step of 0.
  Tensor Sliced(const std::vector<TensorSlice>& slices) const;
  // Dim d of the result is dim dims[d] of this tensor; without `dims`, in reverse order; a copy. Negative dims count
  // from the end. Invalid: not each dim once.
  Tensor Transposed(const std::vector<int64_t>& dims) const;
  Tensor Transposed() const;
  // Each element as another dtype, rounded once, as the op Cast does (ops/cast.h): real to whole towards zero and
  // clamped, NaN is 0; to bool x != 0. A tensor that has the dtype is returned as it is, sharing the elements.
  Tensor Cast(DType dtype) const;

  // The elements as NumPy prints arrays; for an invalid tensor, the message of its status.
  std::string ToString() const;
  std::string ToString(const TensorTextOptions& options) const;

 private:
  static Tensor Invalid(Type type, absl::Status why);
  absl::Status CheckAccess(DType dtype) const;
  [[noreturn]] void ThrowAccess(DType dtype) const;
  static absl::Status CheckCount(const Type& type, int64_t values);
  template <typename T, typename Values>
  static Tensor FromValues(const Shape& shape, const Values& values);
  static Tensor CopyOf(const Type& type, const void* data, const Shape& strides);
  absl::StatusOr<int64_t> OffsetOf(const Shape& index) const;
  double AsDouble(int64_t offset) const;

  Type type_;
  absl::Status why_invalid_;
  std::shared_ptr<void> storage_;
  std::byte* data_ = nullptr;
};

// 64-byte aligned, freed with the last reference. `bytes` may be 0. From 4 MiB on, the part that fills huge
// pages (2 MiB) lies in huge pages if the system has them, which makes access faster.
std::shared_ptr<void> AllocateAligned(int64_t bytes);

template <TensorElement T>
Tensor::Tensor(T value) : Tensor(Type{DTypeOf<T>(), {}}) {
  *reinterpret_cast<T*>(data_) = value;
}

template <typename T>
std::span<T> Tensor::mutable_values() {
  if (DTypeOf<T>() != type_.dtype || !valid()) [[unlikely]]
    ThrowAccess(DTypeOf<T>());
  return {reinterpret_cast<T*>(data_), static_cast<size_t>(num_elements())};
}

template <typename T>
std::span<const T> Tensor::values() const {
  if (DTypeOf<T>() != type_.dtype || !valid()) [[unlikely]]
    ThrowAccess(DTypeOf<T>());
  return {reinterpret_cast<const T*>(data_), static_cast<size_t>(num_elements())};
}

template <typename T>
absl::StatusOr<std::span<T>> Tensor::TryMutableValues() {
  MESHWORK_RETURN_IF_ERROR(CheckAccess(DTypeOf<T>()));
  return mutable_values<T>();
}

template <typename T>
absl::StatusOr<std::span<const T>> Tensor::TryValues() const {
  MESHWORK_RETURN_IF_ERROR(CheckAccess(DTypeOf<T>()));
  return values<T>();
}

template <TensorElement T>
absl::StatusOr<T> Tensor::At(const Shape& index) const {
  if constexpr (!std::is_same_v<T, double>) MESHWORK_RETURN_IF_ERROR(CheckAccess(DTypeOf<T>()));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t offset, OffsetOf(index));
  if constexpr (std::is_same_v<T, double>) return AsDouble(offset);
  else return values<T>()[static_cast<size_t>(offset)];
}

template <typename T, typename Values>
Tensor Tensor::FromValues(const Shape& shape, const Values& values) {
  const Type type{DTypeOf<T>(), shape};
  if (absl::Status count = CheckCount(type, static_cast<int64_t>(values.size())); !count.ok())
    return Invalid(type, std::move(count));
  Tensor tensor(type);
  std::copy(values.begin(), values.end(), tensor.mutable_values<T>().begin());
  return tensor;
}

template <typename T>
Tensor Tensor::From(const Shape& shape, const std::vector<T>& values) {
  return FromValues<T>(shape, values);
}

template <typename T>
Tensor Tensor::From(const Shape& shape, std::initializer_list<T> values) {
  return FromValues<T>(shape, values);
}

template <typename T, typename Values>
requires std::is_convertible_v<const Values&, std::span<const T>> Tensor Tensor::From(const Shape& shape,
                                                                                      const Values& values) {
  return FromValues<T>(shape, std::span<const T>(values));
}

template <TensorElement T>
Tensor Tensor::FromStrided(const T* data, const Shape& shape, const Shape& strides) {
  return CopyOf({DTypeOf<T>(), shape}, data, strides);
}

}  // namespace meshwork
