#include "runtime/dtensor.h"

#include <cstring>

#include "base/status.h"

namespace meshwork {
namespace {

BoxBuffer BufferOf(const DTensor& tensor, int64_t instance) {
  return BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape,
                             tensor.instances().Representative(instance));
}

// The buffer that devices holding the same block as instance i are compared with: that of the
// lowest one.
int64_t FirstReplica(const DTensor& tensor, int64_t i) {
  const InstanceMap blocks(tensor.layout().mesh(), tensor.layout().ShardedAxes());
  return tensor.instances().Of(blocks.Representative(blocks.Of(tensor.instances().Representative(i))));
}

std::string ElementToString(DType dtype, const std::byte* p) {
  return Dispatch(dtype, [&](auto zero) {
    if constexpr (std::is_same_v<decltype(zero), bool>) {
      return std::string(*reinterpret_cast<const uint8_t*>(p) != 0 ? "true" : "false");
    } else {
      return fmt::format("{}", Compute<decltype(zero)>(*reinterpret_cast<const decltype(zero)*>(p)));
    }
  });
}

absl::Status CheckReplica(const DTensor& tensor, int64_t first, int64_t i) {
  const Block block = tensor.block(i);
  const BoxCopy box(block, BufferOf(tensor, i), BufferOf(tensor, i));
  const int64_t size = DTypeSize(tensor.type().dtype);
  int64_t differs = -1;
  box.ForRuns(0, box.elements(), [&](int64_t offset, int64_t, int64_t count) {
    for (int64_t e = offset; e < offset + count && differs < 0; ++e) {
      if (std::memcmp(tensor.instance(first) + e * size, tensor.instance(i) + e * size, size) != 0)
        differs = e;
    }
  });
  if (differs < 0) return absl::OkStatus();
  const DType dtype = tensor.type().dtype;
  return absl::InternalError(fmt::format(
      "Unpack: the replicas of a {} {} disagree: element {} of the block {} is {} on device {} and {} on "
      "device {}; the program that wrote it misses a collective.",
      tensor.type().ToString(), tensor.layout().ToString(), differs, BlockToString(block),
      ElementToString(dtype, tensor.instance(first) + differs * size),
      tensor.instances().Representative(first), ElementToString(dtype, tensor.instance(i) + differs * size),
      tensor.instances().Representative(i)));
}

}  // namespace

DTensor::DTensor(Type global, Layout layout, bool share)
    : type_(std::move(global)), layout_(std::move(layout)) {
  MESHWORK_CHECK(!layout_.is_partial(), "{} {}", type_.ToString(), layout_.ToString());
  constexpr int64_t kAlignment = 64;
  instances_ = InstanceMap(layout_.mesh(), share ? layout_.ShardedAxes() : AllAxes(layout_.mesh()));
  stride_ = (local_type().bytes() + kAlignment - 1) / kAlignment * kAlignment;
  storage_ = AllocateAligned(bytes());
  std::memset(storage_.get(), 0, static_cast<size_t>(bytes()));
}

absl::Status Pack(const Tensor& host, DTensor& to) {
  MESHWORK_CHECK(to.valid());
  if (host.type() != to.type()) {
    return InvalidArgument("Pack: a {} cannot fill a {} {}; dtype and shape must agree.",
                           host.type().ToString(), to.type().ToString(), to.layout().ToString());
  }
  if (!host.valid()) {
    return InvalidArgument("Pack: the {} has no elements yet; a default-constructed Tensor is empty.",
                           host.type().ToString());
  }
  for (int64_t i = 0; i < to.instances().count(); ++i) {
    const BoxCopy box(to.block(i), BoxBuffer::Whole(to.layout().FactorShape(to.type().shape)),
                      BufferOf(to, i));
    box.Copy(static_cast<const std::byte*>(host.raw()), to.instance(i), DTypeSize(host.dtype()), 0,
             box.elements());
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Unpack(const DTensor& from, bool check_replicas) {
  MESHWORK_CHECK(from.valid());
  Tensor host(from.type());
  for (int64_t i = 0; i < from.instances().count(); ++i) {
    if (const int64_t first = FirstReplica(from, i); first != i) {
      if (check_replicas) RETURN_IF_ERROR(CheckReplica(from, first, i));
      continue;
    }
    const BoxCopy box(from.block(i), BufferOf(from, i),
                      BoxBuffer::Whole(from.layout().FactorShape(from.type().shape)));
    box.Copy(from.instance(i), static_cast<std::byte*>(host.raw()), DTypeSize(host.dtype()), 0,
             box.elements());
  }
  return host;
}

}  // namespace meshwork
