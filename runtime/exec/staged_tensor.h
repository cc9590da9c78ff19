// StagedTensor: a host tensor whose elements also lie, in the same order, in the memory of a backend
// (runtime/exec/memory.h). Staged beforehand, it costs a step on a GPU no copy:
//
//   StagedTensor x(backend.memory());
//   MESHWORK_RETURN_IF_ERROR(x.Stage(images));                        // a copy, while another step runs
//   MESHWORK_ASSIGN_OR_RETURN(BoundStep step, executor.Bind({.feeds = {{"x", images}}, .staged = {{"x", x}}}));
//
// In the memory of the process, and in others that take none (Memory::takes_staged), nothing is copied: a step reads the host
// tensor where it is.
//
// Copies of a StagedTensor share the staged elements. Stage of one copy overwrites them for all: afterwards the other
// copies must not be given to a step. So call Stage only while no step runs that is bound to one of the copies. Any
// thread may call it, one at a time, also while other steps run. The host tensor must not change until the step has
// run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "meshwork/runtime/exec/memory.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

class StagedTensor {
 public:
  explicit StagedTensor(std::shared_ptr<Memory> memory);

  // Copies the elements; returns when they are there. Takes new memory only for a tensor that is larger than those
  // before. Errors: `host` has no storage; one of the memory. Throws std::bad_alloc if there is not enough memory.
  // After an error or this exception nothing is staged.
  absl::Status Stage(const Tensor& host);

  // Nothing is staged any more. Keeps the memory.
  void Clear() { host_ = {}; }

  // The host tensor that was staged last; not valid() if nothing is staged.
  const Tensor& host() const { return host_; }
  // Whether `tensor` is the staged one: the same elements, of the same type.
  bool Holds(const Tensor& tensor) const {
    return host_.valid() && tensor.raw() == host_.raw() && tensor.type() == host_.type();
  }
  const Memory& memory() const { return *memory_; }
  // In memory(), as far aligned as an allocation; null in a memory that takes none, and if nothing is staged.
  const std::byte* elements() const {
    return host_.valid() ? static_cast<const std::byte*>(elements_.get()) : nullptr;
  }

 private:
  std::shared_ptr<Memory> memory_;
  Tensor host_;
  std::shared_ptr<void> elements_;
  int64_t room_ = 0;  // bytes behind elements_
};

}  // namespace meshwork
