#ifdef MESHWORK_HAVE_CUDA
#include "meshwork/runtime/cuda/nccl_group.h"

#include <algorithm>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::string_view kJoining = "CudaBackend";

std::string OthersOf(std::span<const NcclGroup::Part> sends, std::span<const NcclGroup::Part> receives) {
  std::vector<int64_t> domains;
  for (const auto& parts : {sends, receives})
    for (const NcclGroup::Part& part : parts) domains.push_back(part.domain);
  std::sort(domains.begin(), domains.end());
  domains.erase(std::unique(domains.begin(), domains.end()), domains.end());
  return NamesOf(domains);
}

NcclType NcclTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return NcclType::kFloat32;
    case DType::kF64: return NcclType::kFloat64;
    case DType::kBF16: return NcclType::kBfloat16;
    case DType::kI32: return NcclType::kInt32;
    case DType::kI64: return NcclType::kInt64;
    default: MESHWORK_CHECK(false, "NCCL adds up no {}", DTypeName(dtype));
  }
  return NcclType::kBytes;
}

NcclOp NcclOpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return NcclOp::kSum;
    case ReduceOp::kProd: return NcclOp::kProd;
    case ReduceOp::kMax: return NcclOp::kMax;
    case ReduceOp::kMin: return NcclOp::kMin;
    default: MESHWORK_CHECK(false, "NCCL makes no {}", ReduceOpName(op));
  }
  return NcclOp::kSum;
}

}  // namespace

bool Patience::Pause() {
  constexpr int kQuick = 200;
  if (++looks_ < kQuick) {
    std::this_thread::yield();
    return true;
  }
  if (steady_clock::now() - start_ >= deadline_) return false;
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  return true;
}

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclGroup::Join(std::shared_ptr<const CudaContext> context,
                                                           Transport& transport, const NcclUniqueId& id,
                                                           const NcclOptions& options) {
  std::shared_ptr<NcclGroup> group(new NcclGroup(std::move(context), transport, options));
  for (const char byte : id.bytes) group->name_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  if (const absl::Status status = group->Open(id); !status.ok()) {
    transport.Abort(status);
    group->Abort();
    return status;
  }
  return group;
}

absl::Status NcclGroup::Open(const NcclUniqueId& id) {
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  NcclConfig config{.blocking = 0};
  const NcclResult result = api().ncclCommInitRankConfig(&comm_, static_cast<int>(transport_.num_domains()),
                                                         id, static_cast<int>(transport_.domain()), &config);
  return Settle(result, kJoining, fmt::format("joining {}", Count(transport_.num_domains(), "GPU")),
                options_.join_deadline);
}

NcclGroup::~NcclGroup() {
  if (!context_->is_here()) return;
  if (aborted_.valid()) aborted_.wait_for(options_.farewell);
  if (comm_ == nullptr) return;
  const CudaContext::Scope scope(*context_);
  if (!transport_.aborted().ok() || !scope.status().ok()) {
    Abort();
    aborted_.wait_for(options_.farewell);
    return;
  }
  NcclResult result = api().ncclCommFinalize(comm_);
  for (Patience patience(options_.farewell);
       result == NcclResult::kInProgress && transport_.aborted().ok() && patience.Pause();)
    if (api().ncclCommGetAsyncError(comm_, &result) != NcclResult::kSuccess) break;
  if (result == NcclResult::kSuccess) api().ncclCommDestroy(std::exchange(comm_, nullptr));
  else api().ncclCommAbort(std::exchange(comm_, nullptr));
}

// ncclCommAbort ends the waiting of the streams at once, but returns only when the graphs that hold exchanges of the
// communicator are destroyed, and these are the caller's. So a thread calls it. If it takes longer than a farewell
// may, nobody waits for the thread.
void NcclGroup::Abort() {
  if (comm_ == nullptr || !context_->is_here()) return;
  const auto abort = std::make_shared<std::packaged_task<void()>>(
      [context = context_, comm = std::exchange(comm_, nullptr)]() mutable {
        {
          const CudaContext::Scope scope(*context);
          context->api().ncclCommAbort(comm);
        }
        context.reset();  // before the group hears that it is done
      });
  aborted_ = abort->get_future();
  try {
    std::thread([abort] { (*abort)(); }).detach();
  } catch (const std::system_error&) {  // the system refuses a thread
    (*abort)();
  }
}

absl::Status NcclGroup::ToStatus(NcclResult result, std::string_view where, std::string_view what) const {
  if (result == NcclResult::kSuccess) return absl::OkStatus();
  const char* const text = api().ncclGetErrorString(result);
  const char* const last = api().ncclGetLastError(comm_);
  const std::string more = last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last);
  const std::string said =
      fmt::format("{}: domain {} on {}, {}: NCCL {}: {}{}", where, transport_.domain(), context_->where(),
                  what, NcclVersionToString(api().nccl_version), text == nullptr ? "unknown" : text, more);
  if (result == NcclResult::kRemoteError)
    return absl::UnavailableError(said + ". Another domain is lost; see what it says.");
  return absl::InternalError(said + ".");
}

absl::Status NcclGroup::Settle(NcclResult result, std::string_view where, std::string_view what,
                               milliseconds deadline) const {
  for (Patience patience(deadline); result == NcclResult::kInProgress;) {
    MESHWORK_RETURN_IF_ERROR(transport_.aborted());
    if (!patience.Pause())
      return absl::DeadlineExceededError(
          fmt::format("{}: domain {} on {}, {}: NCCL has not ended that within {} ms. Check that all domains "
                      "run the same program, and that NCCL reaches their GPUs (NCCL_DEBUG=WARN).",
                      where, transport_.domain(), context_->where(), what, deadline.count()));
    MESHWORK_RETURN_IF_ERROR(ToStatus(api().ncclCommGetAsyncError(comm_, &result), where, what));
  }
  return ToStatus(result, where, what);
}

absl::Status NcclGroup::InGroup(std::string_view where, const std::string& what,
                                const std::function<NcclResult()>& calls) const {
  if (comm_ == nullptr) {
    const absl::Status reason = transport_.aborted();
    if (!reason.ok()) return reason;
    return absl::FailedPreconditionError(
        fmt::format("{}: the group of GPUs was aborted before; make the session anew.", where));
  }
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  MESHWORK_RETURN_IF_ERROR(ToStatus(api().ncclGroupStart(), where, what));
  const NcclResult result = calls();
  const NcclResult ended = api().ncclGroupEnd();
  MESHWORK_RETURN_IF_ERROR(ToStatus(result, where, what));
  return Settle(ended, where, what, options_.deadline);
}

absl::Status NcclGroup::Exchange(std::string_view where, std::span<const Part> sends,
                                 std::span<const Part> receives, const CudaStream& stream) const {
  return InGroup(where, fmt::format("exchanging data with {}", OthersOf(sends, receives)), [&] {
    NcclResult result = NcclResult::kSuccess;
    for (const Part& part : sends)
      if (result == NcclResult::kSuccess && part.bytes > 0)
        result = api().ncclSend(reinterpret_cast<const void*>(part.address), static_cast<size_t>(part.bytes),
                                NcclType::kBytes, static_cast<int>(part.domain), comm_, stream.handle());
    for (const Part& part : receives)
      if (result == NcclResult::kSuccess && part.bytes > 0)
        result = api().ncclRecv(reinterpret_cast<void*>(part.address), static_cast<size_t>(part.bytes),
                                NcclType::kBytes, static_cast<int>(part.domain), comm_, stream.handle());
    return result;
  });
}

absl::Status NcclGroup::AllReduce(std::string_view where, std::span<const Sum> sums,
                                  const CudaStream& stream) const {
  return InGroup(where, "adding up what all domains have", [&] {
    NcclResult result = NcclResult::kSuccess;
    for (const Sum& sum : sums)
      if (result == NcclResult::kSuccess)
        result = api().ncclAllReduce(reinterpret_cast<const void*>(sum.from), reinterpret_cast<void*>(sum.to),
                                     static_cast<size_t>(sum.of.elements), NcclTypeOf(sum.of.dtype),
                                     NcclOpOf(sum.of.op), comm_, stream.handle());
    return result;
  });
}

absl::Status NcclGroup::Check(std::string_view where) const {
  MESHWORK_RETURN_IF_ERROR(transport_.aborted());
  if (comm_ == nullptr) return absl::OkStatus();
  NcclResult state = NcclResult::kSuccess;
  const CudaContext::Scope scope(*context_);
  MESHWORK_RETURN_IF_ERROR(scope.status());
  constexpr std::string_view kWaiting = "waiting for other GPUs";
  MESHWORK_RETURN_IF_ERROR(ToStatus(api().ncclCommGetAsyncError(comm_, &state), where, kWaiting));
  return state == NcclResult::kInProgress ? absl::OkStatus() : ToStatus(state, where, kWaiting);
}

}  // namespace meshwork

#endif  // MESHWORK_HAVE_CUDA
