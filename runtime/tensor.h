// Tensor: a dense, row-major array in host memory; what goes into and comes out of a program.
//
// Copies share the elements (as in NumPy), so passing tensors around is cheap. Concurrent reads are
// safe; a writer needs the tensor to itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "ops/type.h"

namespace meshwork {

class Tensor {
 public:
  Tensor() = default;  // a scalar f32 without storage; valid() is false
  // Uninitialised elements, 64-byte aligned.
  explicit Tensor(Type type);
  // Over memory of at least type.bytes(), 64-byte aligned, released with the last copy.
  Tensor(Type type, std::shared_ptr<void> storage);
  static Tensor Zeros(Type type);
  // REQUIRES: values.size() is the number of elements of `shape`.
  template <typename T>
  static Tensor From(const Shape& shape, const std::vector<T>& values);

  bool valid() const { return storage_ != nullptr; }
  const Type& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  int64_t num_elements() const { return type_.num_elements(); }
  int64_t bytes() const { return type_.bytes(); }

  void* raw() { return data_; }
  const void* raw() const { return data_; }
  // REQUIRES: T is the element type.
  template <typename T>
  std::span<T> mutable_values();
  template <typename T>
  std::span<const T> values() const;

  // Rows [begin, end) of dim 0, sharing the elements. REQUIRES: rank >= 1, 0 <= begin <= end <= rows.
  Tensor Rows(int64_t begin, int64_t end) const;
  // The same elements in another shape. REQUIRES: it has as many.
  Tensor Reshaped(const Shape& shape) const;
  // The only element, as double. Errors: no element or more than one.
  absl::StatusOr<double> Scalar() const;

 private:
  Type type_;
  std::shared_ptr<void> storage_;
  std::byte* data_ = nullptr;
};

// 64-byte aligned, freed with the last reference. `bytes` may be 0. Of 4 MiB or more what fills huge pages (2
// MiB) lies in them, where the system has them to give: it is found faster.
std::shared_ptr<void> AllocateAligned(int64_t bytes);

template <typename T>
std::span<T> Tensor::mutable_values() {
  MESHWORK_CHECK(DTypeOf<T>() == type_.dtype, "a {} tensor", type_.ToString());
  return {reinterpret_cast<T*>(data_), static_cast<size_t>(num_elements())};
}

template <typename T>
std::span<const T> Tensor::values() const {
  MESHWORK_CHECK(DTypeOf<T>() == type_.dtype, "a {} tensor", type_.ToString());
  return {reinterpret_cast<const T*>(data_), static_cast<size_t>(num_elements())};
}

template <typename T>
Tensor Tensor::From(const Shape& shape, const std::vector<T>& values) {
  Tensor tensor(Type{DTypeOf<T>(), shape});
  MESHWORK_CHECK(static_cast<int64_t>(values.size()) == tensor.num_elements(), "{} values for {}",
                 values.size(), tensor.type().ToString());
  std::copy(values.begin(), values.end(), tensor.mutable_values<T>().begin());
  return tensor;
}

}  // namespace meshwork
