// DTensor: a tensor that lies on a mesh under a layout, in the memory of one domain (runtime/exec/memory.h).
//
//   const Layout layout = Layout::Parse(mesh, "{batch,_}").value();
//   DTensor w(CpuMemory(), Type{F32, {10, 7}}, layout);   // zeros
//   MESHWORK_RETURN_IF_ERROR(Pack(host, w));                    // host: f32[10,7]
//   MESHWORK_ASSIGN_OR_RETURN(Tensor back, Unpack(w));          // law: back equals host, bit for bit
//
// There is one dense buffer of block shape per *instance*: per distinct coordinate on the axes that
// shard the tensor, or per device if it was made with share=false. Instances lie one behind the other without
// gaps, so that code that works on all of them sees one array. A short block's tail is padding, whose content
// is arbitrary and never read by Unpack. In debug builds padding is filled with bytes 0xFF, which are NaN, so
// that reading it by mistake shows.
//
// Copies share the elements, like copies of a Tensor. Concurrent reads are safe; a writer needs exclusive use
// of the tensor and of any executor bound to it.
//
// A tensor may have a *spare*: room for as many elements, where the next value is written while this one is still
// there. SwapSpare makes the spare the value in all copies of the tensor, and moves no element; addresses that were
// obtained before are then those of the spare. Steps that take effect as a whole use spares (ExecutorOptions::atomic).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/debug.h"
#include "meshwork/ir/type.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/exec/memory.h"
#include "meshwork/runtime/plan/sharing.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

// How many buffers a tensor of this layout has in a domain, and which devices share them; with share=false,
// each device has its own.
InstanceMap InstancesOf(const Domain& domain, const Layout& layout, bool share);
// The bytes that a DTensor would allocate: DTensor(domain, memory, global, layout, share).bytes().
int64_t BytesOfDTensor(const Domain& domain, const Type& global, const Layout& layout, bool share);

class DTensor {
 public:
  DTensor() = default;  // a scalar f32 without storage; valid() is false
  // Zeros. Throws std::bad_alloc if there is not enough memory. REQUIRES: layout has the type's rank and no
  // partials.
  DTensor(std::shared_ptr<Memory> memory, Type global, Layout layout, bool share = true);
  // The part of a tensor that the devices of one domain hold. REQUIRES, besides: `domain` is on the layout's
  // mesh.
  DTensor(const Domain& domain, std::shared_ptr<Memory> memory, Type global, Layout layout,
          bool share = true);

  bool valid() const { return elements_ != nullptr; }
  const Type& type() const { return type_; }
  const Layout& layout() const { return layout_; }
  Type local_type() const { return {type_.dtype, layout_.LocalShape(type_.shape)}; }

  // REQUIRES: valid().
  Memory& memory() const { return *memory_; }
  // The devices whose blocks are here.
  const Domain& domain() const { return domain_; }
  // Which of these devices share a buffer.
  const InstanceMap& instances() const { return instances_; }
  // The address of instance i in memory(); the host can read it if memory().is_host(). local_type().bytes()
  // long; instance 0 is 64-byte aligned. REQUIRES: 0 <= i < instances().count().
  // Law: instance(i) == instance(0) + i * local_type().bytes().
  std::byte* instance(int64_t i) { return static_cast<std::byte*>(elements_->now.get()) + i * stride_; }
  const std::byte* instance(int64_t i) const {
    return static_cast<const std::byte*>(elements_->now.get()) + i * stride_;
  }
  // The elements of the global tensor that instance i holds.
  Block block(int64_t i) const { return layout_.BlockOf(type_.shape, instances_.Representative(i)); }
  // Bytes allocated for all instances, without the spare.
  int64_t bytes() const { return stride_ * instances_.count(); }

  // Adds a spare of zeros, unless there is one. Throws std::bad_alloc if there is not enough memory. REQUIRES: valid().
  void AddSpare();
  void DropSpare();
  bool has_spare() const { return valid() && elements_->spare != nullptr; }
  // The address of instance i of the spare. REQUIRES: has_spare(); as for instance.
  std::byte* spare(int64_t i) { return static_cast<std::byte*>(elements_->spare.get()) + i * stride_; }
  // The spare becomes the elements, and they become the spare. Law: twice changes nothing. REQUIRES: has_spare().
  void SwapSpare() { elements_->now.swap(elements_->spare); }

 private:
  struct Elements {
    std::shared_ptr<void> now, spare;  // spare: null without one
  };

  Type type_;
  Layout layout_;
  Domain domain_;
  InstanceMap instances_;
  int64_t stride_ = 0;  // bytes of an instance
  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Elements> elements_;
};

// Cuts `host` into the blocks of `to`, those of its domain, and fills their padding if asked to. Errors:
// `host` has another type; an error of the memory. REQUIRES: to.valid().
absl::Status Pack(const Tensor& host, DTensor& to, bool poison_padding = kDebugBuild);

// The whole tensor. Errors: some of its blocks are in other domains; with check_replicas, two instances of
// one block differ in a bit; an error of the memory. REQUIRES: from.valid().
absl::StatusOr<Tensor> Unpack(const DTensor& from, bool check_replicas = kDebugBuild);

// The part of a tensor that one device holds, or one box of it.
struct Shard {
  int64_t device = 0;
  Block box = {};      // in the whole tensor, without padding; BlockToString (layout/block.h) prints it
  Tensor tensor = {};  // its elements
};
// The shards of this domain's devices, by device. They are copies; devices that share a buffer share the copy. A device
// that holds nothing has no shard; one that holds several boxes, because the layout is strided, has one for each.
// Error: one of the memory. REQUIRES: from.valid().
absl::StatusOr<std::vector<Shard>> ShardsOf(const DTensor& from);

}  // namespace meshwork
