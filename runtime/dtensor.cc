#include "meshwork/runtime/dtensor.h"

#include <cstring>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/runtime/replicas.h"

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

// The elements of instance i's buffer that are its block.
BoxCopy BlockElements(const DTensor& tensor, int64_t i) {
  const BoxBuffer buffer = BufferOf(tensor, i);
  return BoxCopy(tensor.block(i), buffer, buffer);
}

absl::Status CheckReplica(const DTensor& tensor, int64_t first, int64_t i) {
  const BoxCopy block = BlockElements(tensor, i);
  const std::optional<Difference> difference = FindDifference(
      block, 0, block.elements(), DTypeSize(tensor.type().dtype), tensor.instance(first), tensor.instance(i));
  if (!difference.has_value()) return absl::OkStatus();
  return DifferenceError("Unpack: the tensor", tensor.type(), tensor.layout(),
                         tensor.instances().Representative(first), tensor.instances().Representative(i),
                         *difference);
}

}  // namespace

InstanceMap InstancesOf(const Layout& layout, bool share) {
  return InstanceMap(layout.mesh(), share ? layout.ShardedAxes() : AllAxes(layout.mesh()));
}

int64_t BytesOfDTensor(const Type& global, const Layout& layout, bool share) {
  return Type{global.dtype, layout.LocalShape(global.shape)}.bytes() * InstancesOf(layout, share).count();
}

DTensor::DTensor(Type global, Layout layout, bool share)
    : type_(std::move(global)), layout_(std::move(layout)) {
  MESHWORK_CHECK(!layout_.is_partial(), "{} {}", type_.ToString(), layout_.ToString());
  instances_ = InstancesOf(layout_, share);
  stride_ = local_type().bytes();
  storage_ = AllocateAligned(bytes());
  std::memset(storage_.get(), 0, static_cast<size_t>(bytes()));
}

absl::Status Pack(const Tensor& host, DTensor& to, bool poison_padding) {
  MESHWORK_CHECK(to.valid());
  RETURN_IF_ERROR(Annotate(host.status(), "Pack: "));
  if (host.type() != to.type()) {
    return InvalidArgument("Pack: a {} cannot fill a {} {}; dtype and shape must agree.",
                           host.type().ToString(), to.type().ToString(), to.layout().ToString());
  }
  for (int64_t i = 0; i < to.instances().count(); ++i) {
    const BoxCopy box(to.block(i), BoxBuffer::Whole(to.layout().FactorShape(to.type().shape)),
                      BufferOf(to, i));
    box.Copy(static_cast<const std::byte*>(host.raw()), to.instance(i), DTypeSize(host.dtype()), 0,
             box.elements());
  }
  if (poison_padding) Padding(to).Poison(to);
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

Padding::Padding(const DTensor& tensor) : elements_(tensor.local_type().num_elements()) {
  for (int64_t i = 0; i < tensor.instances().count(); ++i) blocks_.push_back(BlockElements(tensor, i));
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
