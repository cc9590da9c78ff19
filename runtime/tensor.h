// Tensor: a dense, row-major array in host memory. Inputs and outputs of programs are Tensors.
//
//   Tensor x = Tensor::From<float>({2, 3}, {1, 2, 3, 4, 5, 6});
//   float first = x.values<float>()[0];
//
// Copies share the elements (as in NumPy), so passing tensors around is cheap. Concurrent reads are
// safe; a writer needs the tensor to itself.
//
// A mistake (From with too few values, Rows beyond the end) gives an invalid tensor, whose status() says what
// is wrong; functions that get such a tensor (of a session, a file) report the mistake.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/type.h"

namespace meshwork {

class Tensor {
 public:
  Tensor() = default;  // a scalar f32 without storage; valid() is false
  // Uninitialised elements, 64-byte aligned. Invalid: negative sizes, more than 2^40 elements. Throws
  // std::bad_alloc if there is not enough memory.
  explicit Tensor(Type type);
  // Over memory of at least type.bytes(), released with the last copy. Invalid: no memory; an address that is
  // no multiple of the element's size; a type as above.
  Tensor(Type type, std::shared_ptr<void> storage);
  static Tensor Zeros(Type type);
  // Invalid: values.size() is not the number of elements of `shape`.
  template <typename T>
  static Tensor From(const Shape& shape, const std::vector<T>& values);

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
  // The elements in row-major order. T: float, double, BFloat16, int32_t, int64_t or bool, for f32, f64,
  // bf16, i32, i64 and bool. Like StatusOr's value(), throws absl::BadStatusOrAccess if T is another type or
  // the tensor is invalid.
  template <typename T>
  std::span<T> mutable_values();
  template <typename T>
  std::span<const T> values() const;
  // The same, with that error as a status.
  template <typename T>
  absl::StatusOr<std::span<T>> TryMutableValues();
  template <typename T>
  absl::StatusOr<std::span<const T>> TryValues() const;

  // Rows [begin, end) of dim 0, sharing the elements. Invalid: no dims, begin < 0, begin > end, end > rows.
  Tensor Rows(int64_t begin, int64_t end) const;
  // The same elements in another shape. Invalid: the shape has another number of elements.
  Tensor Reshaped(const Shape& shape) const;
  // The only element, as double. Errors: status(); no element or more than one.
  absl::StatusOr<double> Scalar() const;

 private:
  static Tensor Invalid(Type type, absl::Status why);
  absl::Status CheckAccess(DType dtype) const;
  [[noreturn]] void ThrowAccess(DType dtype) const;
  static absl::Status CheckCount(const Type& type, int64_t values);

  Type type_;
  absl::Status why_invalid_;
  std::shared_ptr<void> storage_;
  std::byte* data_ = nullptr;
};

// 64-byte aligned, freed with the last reference. `bytes` may be 0. From 4 MiB on, the part that fills huge
// pages (2 MiB) lies in huge pages if the system has them, which makes access faster.
std::shared_ptr<void> AllocateAligned(int64_t bytes);

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

template <typename T>
Tensor Tensor::From(const Shape& shape, const std::vector<T>& values) {
  const Type type{DTypeOf<T>(), shape};
  if (absl::Status count = CheckCount(type, static_cast<int64_t>(values.size())); !count.ok())
    return Invalid(type, std::move(count));
  Tensor tensor(type);
  std::copy(values.begin(), values.end(), tensor.mutable_values<T>().begin());
  return tensor;
}

}  // namespace meshwork
