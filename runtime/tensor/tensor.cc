#include "meshwork/runtime/tensor/tensor.h"

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
  // Only for whole huge pages: the rest of one more would be memory that nobody asked for. This is a hint,
  // which may fail.
  if (huge) madvise(p, static_cast<size_t>(bytes / kHugePage * kHugePage), MADV_HUGEPAGE);
#endif
  return std::shared_ptr<void>(p, std::free);
}

Tensor Tensor::Invalid(Type type, absl::Status why) {
  Tensor tensor;
  tensor.type_ = std::move(type);
  tensor.why_invalid_ = std::move(why);
  return tensor;
}

Tensor::Tensor(Type type) : type_(std::move(type)), why_invalid_(Annotate(CheckSize(type_), "Tensor: ")) {
  if (!why_invalid_.ok()) return;
  storage_ = AllocateAligned(type_.bytes());
  data_ = static_cast<std::byte*>(storage_.get());
}

Tensor::Tensor(Type type, std::shared_ptr<void> storage)
    : type_(std::move(type)), why_invalid_(Annotate(CheckSize(type_), "Tensor: ")) {
  const auto address = reinterpret_cast<uintptr_t>(storage.get());
  const auto size = static_cast<uintptr_t>(DTypeSize(type_.dtype));
  if (why_invalid_.ok() && storage == nullptr)
    why_invalid_ = InvalidArgument("Tensor: a {} over no memory; give an address.", type_.ToString());
  else if (why_invalid_.ok() && address % size != 0)
    why_invalid_ = InvalidArgument(
        "Tensor: a {} over memory at {:#x}; elements lie at multiples of {} bytes, so copy them there.",
        type_.ToString(), address, size);
  if (!why_invalid_.ok()) return;
  storage_ = std::move(storage);
  data_ = static_cast<std::byte*>(storage_.get());
}

Tensor Tensor::Zeros(Type type) {
  Tensor tensor(std::move(type));
  if (tensor.valid()) std::memset(tensor.data_, 0, static_cast<size_t>(tensor.bytes()));
  return tensor;
}

absl::Status Tensor::status() const {
  if (valid()) return absl::OkStatus();
  if (!why_invalid_.ok()) return why_invalid_;
  return InvalidArgument(
      "Tensor: it has no elements yet; a default-constructed Tensor is empty, make one by Tensor::From or "
      "Tensor::Zeros.");
}

absl::Status Tensor::CheckCount(const Type& type, int64_t values) {
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckSize(type), "Tensor: "));
  if (values == type.num_elements()) return absl::OkStatus();
  return InvalidArgument("Tensor: {} for a {}, which has {}; give one for each.", Count(values, "value"),
                         type.ToString(), Count(type.num_elements(), "element"));
}

absl::Status Tensor::CheckAccess(DType dtype) const {
  MESHWORK_RETURN_IF_ERROR(status());
  if (dtype == type_.dtype) return absl::OkStatus();
  return InvalidArgument(
      "Tensor: elements of {} are asked for, of a {}; values<T>() takes the C++ type of its dtype.",
      DTypeName(dtype), type_.ToString());
}

void Tensor::ThrowAccess(DType dtype) const { throw absl::BadStatusOrAccess(CheckAccess(dtype)); }

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  if (!valid()) return *this;
  if (type_.rank() == 0)
    return Invalid(type_, InvalidArgument("Tensor: rows {} to {} of a {}, which has no dims.", begin, end,
                                          type_.ToString()));
  if (begin < 0 || begin > end || end > type_.shape[0])
    return Invalid(
        type_, InvalidArgument(
                   "Tensor: rows {} to {} of a {}, which has rows 0 to {}; give a begin and an end there.",
                   begin, end, type_.ToString(), type_.shape[0]));
  Tensor rows = *this;
  if (type_.shape[0] > 0) rows.data_ += type_.bytes() / type_.shape[0] * begin;
  rows.type_.shape[0] = end - begin;
  return rows;
}

Tensor Tensor::Reshaped(const Shape& shape) const {
  if (!valid()) return *this;
  const Type type{type_.dtype, shape};
  if (absl::Status size = Annotate(CheckSize(type), "Tensor: "); !size.ok())
    return Invalid(type, std::move(size));
  if (type.num_elements() != num_elements())
    return Invalid(
        type,
        InvalidArgument("Tensor: a {} reshaped to {}; {} are not {}, give sizes whose product is the first.",
                        type_.ToString(), ShapeToString(shape), Count(num_elements(), "element"),
                        type.num_elements()));
  Tensor reshaped = *this;
  reshaped.type_.shape = shape;
  return reshaped;
}

absl::StatusOr<double> Tensor::Scalar() const {
  MESHWORK_RETURN_IF_ERROR(status());
  if (num_elements() != 1) {
    return InvalidArgument("Tensor: a {} has {}; Scalar() reads tensors of one.", type_.ToString(),
                           Count(num_elements(), "element"));
  }
  return AsDouble(0);
}

double Tensor::AsDouble(int64_t offset) const {
  return DispatchAny(dtype(), [&](auto zero) {
    using T = decltype(zero);
    return static_cast<double>(static_cast<Compute<T>>(reinterpret_cast<const T*>(data_)[offset]));
  });
}

}  // namespace meshwork
