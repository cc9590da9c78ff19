#include "meshwork/runtime/exec/staged_tensor.h"

#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

StagedTensor::StagedTensor(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {
  MESHWORK_CHECK(memory_ != nullptr);
}

absl::Status StagedTensor::Stage(const Tensor& host) {
  host_ = {};
  MESHWORK_RETURN_IF_ERROR(Annotate(host.status(), "Stage: "));
  if (memory_->takes_staged()) {
    if (elements_ == nullptr || host.bytes() > room_) {
      elements_.reset();  // before the new one, so that both need not be there
      room_ = 0;
      elements_ = memory_->Allocate(host.bytes());
      room_ = host.bytes();
    }
    MESHWORK_RETURN_IF_ERROR(memory_->Upload(BoxCopy::Linear(host.bytes()), /*size=*/1,
                                             static_cast<const std::byte*>(host.raw()),
                                             static_cast<std::byte*>(elements_.get())));
  }
  host_ = host;
  return absl::OkStatus();
}

}  // namespace meshwork
