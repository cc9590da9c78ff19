#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/cuda_remotes.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"

namespace meshwork {
namespace {

constexpr int64_t kMessageAlignment = 256;  // of each part

class HostRemotes : public CudaRemotes {
 public:
  HostRemotes(std::shared_ptr<const CudaContext> context, Transport& transport)
      : context_(std::move(context)), transport_(transport) {}

  ~HostRemotes() override { Leave(); }

  bool is_captured() const override { return false; }

  absl::StatusOr<size_t> Prepare(RemoteSpec spec) override {
    Operation made{.where = spec.where};
    for (const auto* parts : {&spec.sends, &spec.receives}) {
      const bool is_sent = parts == &spec.sends;
      for (const RemotePart& part : *parts) {
        (is_sent ? made.sends : made.receives).push_back({bytes_, part.bytes});
        bytes_ += (part.bytes + kMessageAlignment - 1) / kMessageAlignment * kMessageAlignment;
      }
    }
    MESHWORK_ASSIGN_OR_RETURN(made.op, transport_.Prepare(std::move(spec)));
    operations_.push_back(std::move(made));
    return operations_.size() - 1;
  }

  absl::StatusOr<size_t> PrepareSums(const std::string& where, const std::vector<RemoteStep::Sum>&) override {
    MESHWORK_CHECK(false, "{}: a sum of all domains is not made by the process", where);
    return 0;
  }

  absl::Status Allocate() override {
    MESHWORK_ASSIGN_OR_RETURN(pinned_, PinnedBuffer::Allocate(context_, bytes_));
    for (Operation& operation : operations_) {
      for (const Part& part : operation.sends) operation.from.push_back(pinned_.data() + part.offset);
      for (const Part& part : operation.receives) operation.to.push_back(pinned_.data() + part.offset);
    }
    return absl::OkStatus();
  }

  absl::Status Start(size_t number, const CudaStream& compute, std::span<const CUdeviceptr> sends,
                     std::span<const CUdeviceptr> /*receives*/) override {
    const Operation& operation = operations_[number];
    MESHWORK_RETURN_IF_ERROR(Named(operation, Fetch(operation, compute, sends)));
    return operation.op->Start(operation.from, operation.to);
  }

  absl::Status Wait(size_t number, const CudaStream& compute,
                    std::span<const CUdeviceptr> receives) override {
    const Operation& operation = operations_[number];
    MESHWORK_RETURN_IF_ERROR(operation.op->Wait());
    for (size_t i = 0; i < receives.size(); ++i)
      MESHWORK_RETURN_IF_ERROR(
          Named(operation, CopyToDevice(compute, receives[i], operation.to[i], operation.receives[i].bytes)));
    return absl::OkStatus();
  }

  absl::Status Await(const CudaStream& compute) override { return compute.Synchronize(); }

  void Abort(const absl::Status& reason) override {
    transport_.Abort(reason);
    Leave();
  }

 private:
  struct Part {
    int64_t offset = 0, bytes = 0;  // in the pinned memory
  };
  struct Operation {
    std::string where;
    std::vector<Part> sends, receives;
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    std::unique_ptr<RemoteOp> op;
  };

  static absl::Status Named(const Operation& operation, const absl::Status& status) {
    return status.ok() ? status : Annotate(status, fmt::format("Run: {}: ", operation.where));
  }

  // Copies the data that is sent into the pinned memory.
  absl::Status Fetch(const Operation& operation, const CudaStream& compute,
                     std::span<const CUdeviceptr> sends) const {
    for (size_t i = 0; i < sends.size(); ++i)
      MESHWORK_RETURN_IF_ERROR(CopyToHost(compute, pinned_.data() + operation.sends[i].offset, sends[i],
                                          operation.sends[i].bytes));
    // Waits even if nothing is sent: the GPU may still read what the last Wait of this operation has put there.
    return sends.empty() && operation.receives.empty() ? absl::OkStatus() : compute.Synchronize();
  }

  // Waits until started operations no longer use the pinned memory.
  void Leave() {
    for (const Operation& operation : operations_) operation.op->Wait().IgnoreError();
  }

  const std::shared_ptr<const CudaContext> context_;
  Transport& transport_;
  int64_t bytes_ = 0;
  PinnedBuffer pinned_;
  std::vector<Operation> operations_;
};

}  // namespace

std::unique_ptr<CudaRemotes> MakeHostRemotes(std::shared_ptr<const CudaContext> context,
                                             Transport& transport) {
  return std::make_unique<HostRemotes>(std::move(context), transport);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
