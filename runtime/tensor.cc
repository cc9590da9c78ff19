#include "runtime/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace meshwork {

std::shared_ptr<void> AllocateAligned(int64_t bytes) {
  constexpr int64_t kLine = 64, kHugePage = int64_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  const int64_t alignment = huge ? kHugePage : kLine;
  const int64_t rounded = std::max(kLine, (bytes + kLine - 1) / kLine * kLine);
  void* p = nullptr;
  if (posix_memalign(&p, static_cast<size_t>(alignment), static_cast<size_t>(rounded)) != 0)
    throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  // Whole ones only: the rest of one more would be memory that nobody asked for. A hint, which may fail.
  if (huge) madvise(p, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
  return std::shared_ptr<void>(p, std::free);
}

Tensor::Tensor(Type type) : type_(std::move(type)), storage_(AllocateAligned(type_.bytes())) {
  data_ = static_cast<std::byte*>(storage_.get());
}

Tensor::Tensor(Type type, std::shared_ptr<void> storage)
    : type_(std::move(type)), storage_(std::move(storage)), data_(static_cast<std::byte*>(storage_.get())) {}

Tensor Tensor::Zeros(Type type) {
  Tensor tensor(std::move(type));
  std::memset(tensor.data_, 0, static_cast<size_t>(tensor.bytes()));
  return tensor;
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  MESHWORK_CHECK(type_.rank() >= 1 && 0 <= begin && begin <= end && end <= type_.shape[0],
                 "rows [{}, {}) of {}", begin, end, type_.ToString());
  Tensor rows = *this;
  if (type_.shape[0] > 0) rows.data_ += type_.bytes() / type_.shape[0] * begin;
  rows.type_.shape[0] = end - begin;
  return rows;
}

Tensor Tensor::Reshaped(const Shape& shape) const {
  MESHWORK_CHECK(NumElements(shape) == num_elements(), "{} elements for {}", NumElements(shape),
                 type_.ToString());
  Tensor reshaped = *this;
  reshaped.type_.shape = shape;
  return reshaped;
}

absl::StatusOr<double> Tensor::Scalar() const {
  if (!valid())
    return InvalidArgument("Tensor: it has no elements yet; a default-constructed Tensor is empty.");
  if (num_elements() != 1) {
    return InvalidArgument("Tensor: a {} has {}; Scalar() reads tensors of one.", type_.ToString(),
                           Count(num_elements(), "element"));
  }
  return Dispatch(dtype(), [&](auto zero) {
    return static_cast<double>(
        static_cast<Compute<decltype(zero)>>(*reinterpret_cast<const decltype(zero)*>(data_)));
  });
}

}  // namespace meshwork
