// The ends of a transport whose operations NCCL carries, between simulated GPUs: sent data are copied to a GPU first,
// and received data back. They let tests/runtime/exec/transport_test.cc test the contract of transports on NCCL.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/cuda/cuda_buffer.h"
#include "meshwork/runtime/cuda/nccl_remotes.h"
#include "meshwork/runtime/transport/loopback.h"
#include "support/ends.h"
#include "support/simulated_cuda.h"

namespace meshwork {

class NcclEnd : public Transport {
 public:
  // An end on GPU number end->domain(). Waits for the other ends.
  NcclEnd(std::shared_ptr<SimulatedCuda> cuda, std::unique_ptr<Transport> end, const NcclUniqueId& id,
          std::chrono::milliseconds deadline)
      : cuda_(std::move(cuda)), end_(std::move(end)) {
    const auto context = CudaContext::Create(cuda_->api(), static_cast<int>(end_->domain())).value();
    compute_ = CudaStream::Create(context).value();
    const NcclOptions options{.deadline = deadline, .farewell = std::chrono::milliseconds(200)};
    remotes_ = MakeNcclRemotes(context, NcclGroup::Join(context, *end_, id, options).value(), *end_).value();
  }

  int64_t domain() const override { return end_->domain(); }
  int64_t num_domains() const override { return end_->num_domains(); }
  absl::StatusOr<std::vector<std::string>> ExchangeTexts(std::string_view what,
                                                         std::string_view text) override {
    return end_->ExchangeTexts(what, text);
  }
  absl::StatusOr<std::unique_ptr<RemoteOp>> Prepare(RemoteSpec spec) override {
    auto op = std::make_unique<Op>(*this);
    for (auto* buffers : {&op->sent, &op->received})
      for (const RemotePart& part : buffers == &op->sent ? spec.sends : spec.receives) {
        MESHWORK_ASSIGN_OR_RETURN(CudaBuffer on_gpu,
                                  CudaBuffer::Allocate(compute_, std::max<int64_t>(part.bytes, 1)));
        MESHWORK_ASSIGN_OR_RETURN(PinnedBuffer pinned,
                                  PinnedBuffer::Allocate(compute_->shared_context(), part.bytes));
        buffers->push_back({std::move(on_gpu), std::move(pinned)});
      }
    MESHWORK_ASSIGN_OR_RETURN(op->number, remotes_->Prepare(std::move(spec)));
    MESHWORK_RETURN_IF_ERROR(remotes_->Allocate());
    MESHWORK_RETURN_IF_ERROR(compute_->Synchronize());
    return op;
  }
  void Abort(absl::Status reason) override { end_->Abort(std::move(reason)); }
  absl::Status aborted() override { return end_->aborted(); }

 private:
  struct Staged {
    CudaBuffer on_gpu;
    PinnedBuffer pinned;
  };

  class Op : public RemoteOp {
   public:
    explicit Op(NcclEnd& end) : end_(end) {}
    ~Op() override { Wait().IgnoreError(); }

    absl::Status Start(std::span<const std::byte* const> sends,
                       std::span<std::byte* const> receives) override {
      to_.assign(receives.begin(), receives.end());
      is_under_way_ = true;
      return Checked(TryStart(sends));
    }
    absl::Status Wait() override {
      if (!std::exchange(is_under_way_, false)) return absl::OkStatus();
      MESHWORK_RETURN_IF_ERROR(Checked(TryWait()));
      for (size_t i = 0; i < received.size(); ++i)
        if (received[i].pinned.bytes() > 0)
          std::memcpy(to_[i], received[i].pinned.data(), static_cast<size_t>(received[i].pinned.bytes()));
      return absl::OkStatus();
    }

    size_t number = 0;
    std::vector<Staged> sent, received;

   private:
    absl::Status TryStart(std::span<const std::byte* const> sends) {
      for (size_t i = 0; i < sent.size(); ++i)
        MESHWORK_RETURN_IF_ERROR(
            CopyToDevice(*end_.compute_, sent[i].on_gpu.address(), sends[i], sent[i].pinned.bytes()));
      std::vector<CUdeviceptr> from, to;
      for (const Staged& staged : sent) from.push_back(staged.on_gpu.address());
      for (const Staged& staged : received) to.push_back(staged.on_gpu.address());
      return end_.remotes_->Start(number, *end_.compute_, from, to);
    }
    absl::Status TryWait() {
      std::vector<CUdeviceptr> to;
      for (const Staged& staged : received) to.push_back(staged.on_gpu.address());
      MESHWORK_RETURN_IF_ERROR(end_.remotes_->Wait(number, *end_.compute_, to));
      for (Staged& staged : received)
        MESHWORK_RETURN_IF_ERROR(
            CopyToHost(*end_.compute_, staged.pinned.data(), staged.on_gpu.address(), staged.pinned.bytes()));
      return end_.remotes_->Await(*end_.compute_);
    }
    // As in a step: after an error no end goes on.
    absl::Status Checked(absl::Status status) {
      if (status.ok()) return status;
      is_under_way_ = false;
      end_.remotes_->Abort(status);
      end_.compute_->Drain().IgnoreError();
      return end_.aborted();
    }

    NcclEnd& end_;
    std::vector<std::byte*> to_;
    bool is_under_way_ = false;
  };

  const std::shared_ptr<SimulatedCuda> cuda_;
  const std::unique_ptr<Transport> end_;
  std::shared_ptr<const CudaStream> compute_;
  std::unique_ptr<CudaRemotes> remotes_;
};

// Each end on a simulated GPU of its own. Findings and leaks of the simulation fail the test.
inline Ends MakeNcclEnds(int64_t num_domains, std::chrono::milliseconds deadline) {
  static uint64_t seed = 0;
  const auto cuda = std::make_shared<SimulatedCuda>(SimulatedCudaOptions{
      .gpus = std::vector<SimulatedGpu>(static_cast<size_t>(num_domains)), .seed = ++seed});
  NcclUniqueId id;
  MESHWORK_CHECK(cuda->api().ncclGetUniqueId(&id) == NcclResult::kSuccess);
  std::vector<std::unique_ptr<Transport>> control = MakeLoopback(num_domains, {.deadline = deadline});
  Ends ends(static_cast<size_t>(num_domains));
  std::vector<std::thread> threads;
  for (size_t d = 0; d < ends.size(); ++d)
    threads.emplace_back(
        [&, d] { ends[d] = std::make_unique<NcclEnd>(cuda, std::move(control[d]), id, deadline); });
  for (std::thread& thread : threads) thread.join();
  return ends;
}

}  // namespace meshwork
