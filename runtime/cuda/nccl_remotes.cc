#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/nccl_remotes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"

namespace meshwork {
namespace {

class NcclRemotes : public CudaRemotes {
 public:
  NcclRemotes(std::shared_ptr<const CudaStream> stream, std::shared_ptr<NcclGroup> group,
              Transport& transport)
      : stream_(std::move(stream)), group_(std::move(group)), transport_(transport) {}

  bool is_captured() const override { return true; }

  absl::StatusOr<size_t> Prepare(RemoteSpec spec) override {
    MESHWORK_RETURN_IF_ERROR(transport_.aborted());
    Operation made;
    for (const RemotePart& part : spec.sends) made.sends.push_back({part.domain, 0, part.bytes});
    for (const RemotePart& part : spec.receives) made.receives.push_back({part.domain, 0, part.bytes});
    made.spec = std::move(spec);
    return Add(std::move(made));
  }

  absl::StatusOr<size_t> PrepareSums(const std::string& where,
                                     const std::vector<RemoteStep::Sum>& sums) override {
    MESHWORK_RETURN_IF_ERROR(transport_.aborted());
    Operation made{.spec = {.where = where}};
    for (const RemoteStep::Sum& sum : sums) made.sums.push_back({.of = sum});
    return Add(std::move(made));
  }

  absl::Status Allocate() override {
    std::vector<int32_t> numbers;
    for (size_t i = 0; i < operations_.size(); ++i) numbers.push_back(static_cast<int32_t>(i));
    const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(int32_t));
    MESHWORK_ASSIGN_OR_RETURN(numbers_, CudaBuffer::Allocate(stream_, bytes));
    MESHWORK_ASSIGN_OR_RETURN(last_, PinnedBuffer::Allocate(stream_->shared_context(), sizeof(int32_t)));
    Note(-1);
    MESHWORK_RETURN_IF_ERROR(CopyToDevice(*stream_, numbers_.address(), numbers.data(), bytes));
    return stream_->Synchronize();
  }

  absl::Status Start(size_t number, const CudaStream& compute, std::span<const CUdeviceptr> sends,
                     std::span<const CUdeviceptr> receives) override {
    MESHWORK_RETURN_IF_ERROR(transport_.aborted());
    Operation& operation = operations_[number];
    if (!operation.is_here()) return absl::OkStatus();
    MESHWORK_RETURN_IF_ERROR(Named(operation, Begin(operation, number, compute)));
    MESHWORK_RETURN_IF_ERROR(Put(operation, sends, receives));
    return Named(operation, operation.ended->Record(*stream_));
  }

  absl::Status Wait(size_t number, const CudaStream& compute,
                    std::span<const CUdeviceptr> /*receives*/) override {
    const Operation& operation = operations_[number];
    return operation.is_here() ? Named(operation, compute.Wait(*operation.ended)) : absl::OkStatus();
  }

  // The GPU waits for other domains, so the process has to check whether they are lost.
  absl::Status Await(const CudaStream& compute) override {
    for (Patience patience(group_->options().deadline);;) {
      MESHWORK_ASSIGN_OR_RETURN(const bool is_done, compute.IsDone());
      if (is_done) break;
      MESHWORK_RETURN_IF_ERROR(group_->Check(WhereNow()));
      if (!patience.Pause()) return Late();
    }
    Note(-1);
    return absl::OkStatus();
  }

  void Abort(const absl::Status& reason) override {
    transport_.Abort(reason);
    group_->Abort();
    stream_->Drain().IgnoreError();
  }

 private:
  struct Operation {
    RemoteSpec spec;
    std::vector<NcclGroup::Part> sends, receives;
    std::vector<NcclGroup::Sum> sums;  // instead of these
    std::unique_ptr<const CudaEvent> begun, ended;

    // Whether this domain takes part.
    bool is_here() const { return !sends.empty() || !receives.empty() || !sums.empty(); }
  };

  absl::StatusOr<size_t> Add(Operation made) {
    MESHWORK_ASSIGN_OR_RETURN(made.begun, CudaEvent::Create(stream_->shared_context()));
    MESHWORK_ASSIGN_OR_RETURN(made.ended, CudaEvent::Create(stream_->shared_context()));
    operations_.push_back(std::move(made));
    return operations_.size() - 1;
  }

  // Puts the operation on the stream of exchanges.
  absl::Status Put(Operation& operation, std::span<const CUdeviceptr> sends,
                   std::span<const CUdeviceptr> receives) {
    if (!operation.sums.empty()) {
      for (size_t i = 0; i < operation.sums.size(); ++i) {
        operation.sums[i].from = sends[i];
        operation.sums[i].to = receives[i];
      }
      return group_->AllReduce(operation.spec.where, operation.sums, *stream_);
    }
    for (size_t i = 0; i < sends.size(); ++i) operation.sends[i].address = sends[i];
    for (size_t i = 0; i < receives.size(); ++i) operation.receives[i].address = receives[i];
    return group_->Exchange(operation.spec.where, operation.sends, operation.receives, *stream_);
  }

  static absl::Status Named(const Operation& operation, const absl::Status& status) {
    return status.ok() ? status : Annotate(status, fmt::format("Run: {}: ", operation.spec.where));
  }

  // Makes the stream of exchanges wait for the data that is sent, and note the number of the operation.
  absl::Status Begin(const Operation& operation, size_t number, const CudaStream& compute) {
    MESHWORK_RETURN_IF_ERROR(operation.begun->Record(compute));
    MESHWORK_RETURN_IF_ERROR(stream_->Wait(*operation.begun));
    return CopyToHost(*stream_, last_.data(), numbers_.address() + number * sizeof(int32_t), sizeof(int32_t));
  }

  void Note(int32_t number) { std::memcpy(last_.data(), &number, sizeof(number)); }

  // The last operation that the GPU has reached in this step; null: none yet.
  const Operation* Last() const {
    int32_t number = -1;
    std::memcpy(&number, last_.data(), sizeof(number));
    const auto at = static_cast<size_t>(number);
    return number < 0 || at >= operations_.size() ? nullptr : &operations_[at];
  }

  // "all_reduce (model.cc:41)"; "before all_reduce (model.cc:41)".
  std::string WhereNow() const {
    if (const Operation* const last = Last(); last != nullptr) return last->spec.where;
    return operations_.empty() ? "a step" : "before " + operations_.front().spec.where;
  }

  absl::Status Late() const {
    const Operation* const last = Last();
    std::vector<int64_t> others;
    for (int64_t d = 0; d < transport_.num_domains(); ++d) {
      const auto is_of = [d](const RemotePart& part) { return part.domain == d; };
      if (last == nullptr || !last->sums.empty()
              ? d != transport_.domain()
              : std::any_of(last->spec.sends.begin(), last->spec.sends.end(), is_of) ||
                    std::any_of(last->spec.receives.begin(), last->spec.receives.end(), is_of))
        others.push_back(d);
    }
    return LateError(WhereNow(), others, group_->options().deadline, transport_.domain());
  }

  const std::shared_ptr<const CudaStream> stream_;
  const std::shared_ptr<NcclGroup> group_;
  Transport& transport_;
  std::vector<Operation> operations_;
  CudaBuffer numbers_;  // 0, 1, … as int32
  PinnedBuffer last_;   // an int32
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaRemotes>> MakeNcclRemotes(std::shared_ptr<const CudaContext> context,
                                                             std::shared_ptr<NcclGroup> group,
                                                             Transport& transport) {
  MESHWORK_ASSIGN_OR_RETURN(std::shared_ptr<const CudaStream> stream, CudaStream::Create(std::move(context)));
  return std::make_unique<NcclRemotes>(std::move(stream), std::move(group), transport);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
