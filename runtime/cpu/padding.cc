#include "meshwork/runtime/cpu/padding.h"

#include <cstring>

namespace meshwork {

Padding::Padding(const DTensor& tensor) : elements_(tensor.local_type().num_elements()) {
  for (int64_t i = 0; i < tensor.instances().count(); ++i) {
    const BoxBuffer buffer =
        BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape, tensor.instances().Representative(i));
    blocks_.emplace_back(tensor.block(i), buffer, buffer);
  }
}

void Padding::Poison(DTensor& tensor) const {
  constexpr int kNan = 0xFF;
  const int64_t size = DTypeSize(tensor.type().dtype);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].elements() == elements_) continue;
    std::byte* buffer = tensor.instance(static_cast<int64_t>(i));
    int64_t next = 0;
    blocks_[i].ForRuns(0, blocks_[i].elements(), [&](int64_t offset, int64_t, int64_t count) {
      std::memset(buffer + next * size, kNan, static_cast<size_t>((offset - next) * size));
      next = offset + count;
    });
    std::memset(buffer + next * size, kNan, static_cast<size_t>((elements_ - next) * size));
  }
}

}  // namespace meshwork
