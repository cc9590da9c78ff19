#include "meshwork/runtime/exec/dtensor.h"

#include <cstring>
#include <optional>

#include "meshwork/base/status.h"
#include "meshwork/layout/plain_parts.h"
#include "meshwork/runtime/exec/replicas.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

BoxBuffer BufferOf(const DTensor& tensor, int64_t instance) {
  return BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape,
                             tensor.instances().Representative(instance));
}

// The buffer that devices holding the same block as instance i are compared with: that of the
// lowest one.
int64_t FirstReplica(const DTensor& tensor, int64_t i) {
  const InstanceMap blocks(tensor.domain(), tensor.layout().ShardedAxes());
  return tensor.instances().Of(blocks.Representative(blocks.Of(tensor.instances().Representative(i))));
}

// The whole buffer of an instance.
absl::StatusOr<Tensor> DownloadInstance(const DTensor& tensor, int64_t i) {
  Tensor host(tensor.local_type());
  MESHWORK_RETURN_IF_ERROR(tensor.memory().Download(BoxCopy::Linear(host.num_elements()),
                                                    DTypeSize(host.dtype()), tensor.instance(i),
                                                    static_cast<std::byte*>(host.raw())));
  return host;
}

absl::Status CheckReplica(const DTensor& tensor, int64_t first, int64_t i) {
  MESHWORK_ASSIGN_OR_RETURN(const Tensor a, DownloadInstance(tensor, first));
  MESHWORK_ASSIGN_OR_RETURN(const Tensor b, DownloadInstance(tensor, i));
  const BoxBuffer buffer = BufferOf(tensor, i);
  const BoxCopy block(tensor.block(i), buffer, buffer);
  const std::optional<Difference> difference =
      FindDifference(block, 0, block.elements(), DTypeSize(tensor.type().dtype),
                     static_cast<const std::byte*>(a.raw()), static_cast<const std::byte*>(b.raw()));
  if (!difference.has_value()) return absl::OkStatus();
  return DifferenceError("Unpack: the tensor", tensor.type(), tensor.layout(),
                         tensor.instances().Representative(first), tensor.instances().Representative(i),
                         *difference);
}

// Uploads the elements of instance i. With poison_padding all others of its buffer are bytes 0xFF.
absl::Status UploadInstance(const Tensor& host, DTensor& to, int64_t i, bool poison_padding) {
  constexpr int kNan = 0xFF;
  const auto* from = static_cast<const std::byte*>(host.raw());
  const BoxCopy box(to.block(i), BoxBuffer::Whole(to.layout().FactorShape(to.type().shape)), BufferOf(to, i));
  const int64_t size = DTypeSize(host.dtype());
  if (!poison_padding) return to.memory().Upload(box, size, from, to.instance(i));
  Tensor poisoned(to.local_type());
  std::memset(poisoned.raw(), kNan, static_cast<size_t>(poisoned.bytes()));
  box.Copy(from, static_cast<std::byte*>(poisoned.raw()), size, 0, box.elements());
  return to.memory().Upload(BoxCopy::Linear(poisoned.num_elements()), size,
                            static_cast<const std::byte*>(poisoned.raw()), to.instance(i));
}

}  // namespace

InstanceMap InstancesOf(const Domain& domain, const Layout& layout, bool share) {
  return InstanceMap(domain, share ? layout.ShardedAxes() : AllAxes(layout.mesh()));
}

int64_t BytesOfDTensor(const Domain& domain, const Type& global, const Layout& layout, bool share) {
  return Type{global.dtype, layout.LocalShape(global.shape)}.bytes() *
         InstancesOf(domain, layout, share).count();
}

DTensor::DTensor(std::shared_ptr<Memory> memory, Type global, Layout layout, bool share)
    : DTensor(Domain(layout.mesh()), std::move(memory), std::move(global), layout, share) {}

DTensor::DTensor(const Domain& domain, std::shared_ptr<Memory> memory, Type global, Layout layout, bool share)
    : type_(std::move(global)), layout_(std::move(layout)), domain_(domain), memory_(std::move(memory)) {
  MESHWORK_CHECK(!layout_.is_partial(), "{} {}", type_.ToString(), layout_.ToString());
  MESHWORK_CHECK(domain.mesh() == layout_.mesh(), "{} on {}", domain.placement().ToString(),
                 layout_.mesh().ToString());
  instances_ = InstancesOf(domain_, layout_, share);
  stride_ = local_type().bytes();
  elements_ = std::make_shared<Elements>();
  elements_->now = memory_->Allocate(bytes());
}

void DTensor::AddSpare() {
  MESHWORK_CHECK(valid());
  if (!has_spare()) elements_->spare = memory_->Allocate(bytes());
}

void DTensor::DropSpare() {
  if (valid()) elements_->spare.reset();
}

absl::Status Pack(const Tensor& host, DTensor& to, bool poison_padding) {
  MESHWORK_CHECK(to.valid());
  MESHWORK_RETURN_IF_ERROR(Annotate(host.status(), "Pack: "));
  if (host.type() != to.type()) {
    const Shape &from = host.shape(), &wanted = to.type().shape;
    const bool is_transposed = from.size() == 2 && from != wanted && Shape{from[1], from[0]} == wanted;
    return InvalidArgument("Pack: a {} cannot fill a {} {}; dtype and shape must agree{}.",
                           host.type().ToString(), to.type().ToString(), to.layout().ToString(),
                           from == wanted
                               ? fmt::format(", and Tensor::Cast makes {} of it", DTypeName(to.type().dtype))
                           : is_transposed ? ", and Tensor::Transposed swaps the dims"
                                           : "");
  }
  for (int64_t i = 0; i < to.instances().count(); ++i)
    MESHWORK_RETURN_IF_ERROR(UploadInstance(host, to, i, poison_padding));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Unpack(const DTensor& from, bool check_replicas) {
  MESHWORK_CHECK(from.valid());
  if (from.layout().ShardedAxes().Intersects(from.domain().placement().across()))
    return absl::FailedPreconditionError(fmt::format(
        "Unpack: the tensor {} {} lies in {}, of which this is domain {}; let a program gather it "
        "(relayout), or read the blocks that are here.",
        from.type().ToString(), from.layout().ToString(), from.domain().placement().ToString(),
        from.domain().index()));
  Tensor host(from.type());
  for (int64_t i = 0; i < from.instances().count(); ++i) {
    if (const int64_t first = FirstReplica(from, i); first != i) {
      if (check_replicas) MESHWORK_RETURN_IF_ERROR(CheckReplica(from, first, i));
      continue;
    }
    const BoxCopy box(from.block(i), BufferOf(from, i),
                      BoxBuffer::Whole(from.layout().FactorShape(from.type().shape)));
    MESHWORK_RETURN_IF_ERROR(from.memory().Download(box, DTypeSize(host.dtype()), from.instance(i),
                                                    static_cast<std::byte*>(host.raw())));
  }
  return host;
}

absl::StatusOr<std::vector<Shard>> ShardsOf(const DTensor& from) {
  MESHWORK_CHECK(from.valid());
  std::vector<std::vector<Shard>> of_instance(static_cast<size_t>(from.instances().count()));
  for (int64_t i = 0; i < from.instances().count(); ++i) {
    for (const PlainPart& part : PlainParts(from.layout(), from.type().shape, from.block(i))) {
      Tensor elements({from.type().dtype, SizesOf(part.box)});
      MESHWORK_RETURN_IF_ERROR(elements.status());
      const BoxCopy copy(part.factors, BufferOf(from, i), BoxBuffer::OfBox(part.factors));
      MESHWORK_RETURN_IF_ERROR(from.memory().Download(copy, DTypeSize(from.type().dtype), from.instance(i),
                                                      static_cast<std::byte*>(elements.raw())));
      of_instance[static_cast<size_t>(i)].push_back({.box = part.box, .tensor = std::move(elements)});
    }
  }
  std::vector<Shard> shards;
  const int64_t first = from.domain().first_device(), end = first + from.domain().num_devices();
  for (int64_t device = first; device < end; ++device) {
    for (Shard shard : of_instance[static_cast<size_t>(from.instances().Of(device))]) {
      shard.device = device;
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

}  // namespace meshwork
