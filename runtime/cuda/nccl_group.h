// NcclGroup is an NCCL communicator of the GPUs of a program's domains. Its rank d is the GPU of domain d.
//
//   MESHWORK_ASSIGN_OR_RETURN(const auto group, NcclGroup::Join(context, transport, id, {}));   // in all domains
//   MESHWORK_RETURN_IF_ERROR(group->Exchange("all_gather (model.cc:41)", sends, receives, *stream));
//
// Data goes from GPU to GPU. The transport between the domains is still used for all else: their agreement on what
// they run, the fence of a step, aborts. An exchange only moves bytes: receivers add them up, in the order of the
// devices, so that the numbers are those of any other transport, bit by bit. AllReduce is NCCL's own sum.
//
// A GPU that waits for a lost GPU waits for ever. So code that waits for a stream must call Check again and again;
// Abort ends the waiting on streams. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/runtime/cuda/cuda_context.h"
#include "meshwork/runtime/cuda/cuda_stream.h"
#include "meshwork/runtime/exec/transport.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {

struct NcclOptions {
  // The longest that a domain waits for the others in one step, and while they join, before it aborts.
  std::chrono::milliseconds deadline = std::chrono::minutes(10), join_deadline = std::chrono::minutes(10);
  // The longest that it waits at the end for domains that may still read data that it has sent.
  std::chrono::milliseconds farewell = std::chrono::seconds(2);
};

class NcclGroup {
 public:
  // A part of an exchange: another domain, and memory of this GPU.
  struct Part {
    int64_t domain = 0;
    CUdeviceptr address = 0;
    int64_t bytes = 0;
  };

  // Waits for all domains of `transport`, which must outlive the group. `id`: ncclGetUniqueId of one of them. Errors,
  // after which the transport is aborted: NCCL's, as for two domains with one GPU; the reason of an abort; the
  // deadline. REQUIRES: there is NCCL (CudaApi::nccl_status).
  static absl::StatusOr<std::shared_ptr<NcclGroup>> Join(std::shared_ptr<const CudaContext> context,
                                                         Transport& transport, const NcclUniqueId& id,
                                                         const NcclOptions& options);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  // Waits for the others as long as NcclOptions::farewell says. REQUIRES: the streams are done, and graphs with its
  // exchanges are destroyed.
  ~NcclGroup();

  // A name that no other group has had; the same in all domains.
  const std::string& name() const { return name_; }
  const NcclOptions& options() const { return options_; }

  // Whether the group can carry data between the domains of this transport.
  bool Serves(const Transport& transport) const {
    return comm_ != nullptr && &transport_ == &transport && transport_.aborted().ok();
  }

  // Puts an exchange on the stream, captured or not. Parts of no bytes are left out. All domains call it in the same
  // order. `where`: for errors. Errors: NCCL's; the group was aborted.
  absl::Status Exchange(std::string_view where, std::span<const Part> sends, std::span<const Part> receives,
                        const CudaStream& stream) const;

  // Puts sums over all domains on the stream, captured or not. NCCL chooses the order of the terms; all domains get
  // the same bits. All domains call it in the same order, with as many elements. Errors: as those of Exchange.
  // REQUIRES: NcclReduces of each.
  struct Sum {
    CUdeviceptr from = 0, to = 0;  // the same, or apart
    RemoteStep::Sum of;
  };
  absl::Status AllReduce(std::string_view where, std::span<const Sum> sums, const CudaStream& stream) const;

  // OK if the group can go on. Errors: NCCL's about other ranks; the reason of the transport's abort.
  absl::Status Check(std::string_view where) const;

  // Work of the group that is on streams ends soon, and no more is put there.
  void Abort();

 private:
  NcclGroup(std::shared_ptr<const CudaContext> context, Transport& transport, const NcclOptions& options)
      : context_(std::move(context)), transport_(transport), options_(options) {}

  const CudaApi& api() const { return context_->api(); }
  absl::Status Open(const NcclUniqueId& id);
  // `calls` as one group, up to the first error.
  absl::Status InGroup(std::string_view where, const std::string& what,
                       const std::function<NcclResult()>& calls) const;
  absl::Status ToStatus(NcclResult result, std::string_view where, std::string_view what) const;
  // Waits for the end of a call that does not block.
  absl::Status Settle(NcclResult result, std::string_view where, std::string_view what,
                      std::chrono::milliseconds deadline) const;

  const std::shared_ptr<const CudaContext> context_;
  Transport& transport_;
  const NcclOptions options_;
  std::string name_;
  NcclComm* comm_ = nullptr;
  std::future<void> aborted_;  // valid since Abort; ready when NCCL has forgotten the communicator
};

// Pauses between polls of other threads, GPUs or processes; short ones at first.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds deadline)
      : deadline_(deadline), start_(std::chrono::steady_clock::now()) {}
  // False if the deadline has passed; else pauses.
  bool Pause();

 private:
  const std::chrono::milliseconds deadline_;
  const std::chrono::steady_clock::time_point start_;
  int looks_ = 0;
};

}  // namespace meshwork
