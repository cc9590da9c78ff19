// Messages about cross-device ops that are wrong, fail, or are not available.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors/errors.h"
#include "errors/other_memory.h"
#include "gtest/gtest.h"
#include "meshwork/ops/ops.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/tools/check/check_cross_device.h"
#include "meshwork/train/nn/initializers.h"
#include "meshwork/train/strategy/strategies.h"
#include "support/cross_device_ops.h"

namespace meshwork::cross_device_test {
namespace {

using How = FailsOps::How;
using Wrong = MistakenOps::How;

// A backend of the user's own, which is not the host's.
class OwnBackend : public CpuBackend {
 public:
  OwnBackend() : CpuBackend(1) {}
  std::string_view name() const override { return "an accelerator"; }
  std::shared_ptr<Memory> memory() const override { return std::make_shared<OtherMemory>(); }
};

absl::StatusOr<Session> SessionWith(std::shared_ptr<CrossDeviceOps> ops, ExecutorOptions executor = {},
                                    std::shared_ptr<Backend> backend = nullptr) {
  const Strategy strategy = MirroredStrategy({.num_devices = 2, .cross_device_ops = std::move(ops)}).value();
  const StrategyScope scope(strategy);
  Graph g = NewGraph();
  const Value x = g.Input("x", F32, {4, 3});
  const Variable w = g.Var("w", Zeros({3}));
  g.Update(w, w + ReduceSum(x, 0));
  g.Output("mean", ReduceMean(x));
  executor.check_replicas = true;
  if (backend != nullptr) return NewSession(g, {.backend = backend, .executor = executor});
  return NewSession(g, {.workers = 1, .executor = executor});
}

// The error of the third step: the sums of 12 ones.
absl::Status Train(std::shared_ptr<CrossDeviceOps> ops) {
  absl::StatusOr<Session> session = SessionWith(std::move(ops));
  MESHWORK_RETURN_IF_ERROR(session.status());
  for (int step = 0; step < 3; ++step)
    MESHWORK_RETURN_IF_ERROR(
        session->Run({{"x", Tensor::From<float>({4, 3}, std::vector<float>(12, 1))}}).status());
  return absl::OkStatus();
}

// Each step makes two calls, one of them for the variable.
class TiresInStep3 : public BackwardsOps {
 public:
  std::string_view name() const override { return "tires"; }
  absl::Status Broadcast(const BroadcastPack& pack) override {
    MESHWORK_RETURN_IF_ERROR(BackwardsOps::Broadcast(pack));
    if (broadcasts > 4 && pack.count == 3) reinterpret_cast<float*>(pack.to[1])[0] += 0.5f;
    return absl::OkStatus();
  }
};

template <typename Ops, typename... Args>
absl::Status Checked(Args... args) {
  Ops ops(args...);
  return CheckCrossDeviceOps(ops).status();
}

TEST(CrossDeviceErrors, CrossDeviceOps) {
  const auto ring = RingAllReduce();
  ExpectErrors("cross_device",
               {
                   MISTAKE(SessionWith(NcclAllReduce())),
                   MISTAKE(SessionWith(NcclAllReduce(), {}, std::make_shared<OwnBackend>())),
                   MISTAKE(NcclAllReduce()->Reduce({})),
                   MISTAKE(HierarchicalCopyAllReduce(0)),
                   MISTAKE(MirroredStrategy({.cross_device_ops = ring, .bytes_per_pack = -1})),
                   MISTAKE(MirroredStrategy({.bytes_per_pack = 4096})),
                   MISTAKE(SessionWith(nullptr, {.bytes_per_pack = -4})),
                   MISTAKE(Train(std::make_shared<FailsOps>(How::kStatus))),
                   MISTAKE(Train(std::make_shared<FailsOps>(How::kThrow))),
                   MISTAKE(Train(std::make_shared<FailsOps>(How::kThrowMemory))),
                   MISTAKE(Train(std::make_shared<FailsOps>(How::kThrowNumber))),
                   MISTAKE(Train(std::make_shared<TiresInStep3>())),
               });
}

absl::Status CheckedMoves(MistakenMoves::How how) {
  return CheckCrossDeviceOps(*MakeCrossDeviceOps(std::make_shared<MistakenMoves>(how))).status();
}

TEST(CrossDeviceErrors, Moves) {
  using Moves = MistakenMoves::How;
  ExpectErrors("cross_device_moves", {
                                         MISTAKE(CheckedMoves(Moves::kBeyond)),
                                         MISTAKE(CheckedMoves(Moves::kNoSource)),
                                         MISTAKE(CheckedMoves(Moves::kWritesTerm)),
                                         MISTAKE(CheckedMoves(Moves::kAddsItself)),
                                         MISTAKE(CheckedMoves(Moves::kRoom)),
                                         MISTAKE(CheckedMoves(Moves::kNoDevice)),
                                         MISTAKE(CheckedMoves(Moves::kSameRound)),
                                         MISTAKE(CheckedMoves(Moves::kOtherResult)),
                                         MISTAKE(CheckedMoves(Moves::kReadsTerm)),
                                     });
}

TEST(CrossDeviceErrors, Checks) {
  ExpectErrors("cross_device_check", {
                                         MISTAKE(Checked<LeavesOneOut>()),
                                         MISTAKE(Checked<ForgetsTheLast>()),
                                         MISTAKE(Checked<FailsOps>(How::kStatus)),
                                         MISTAKE(Checked<FailsOps>(How::kThrow)),
                                         MISTAKE(Checked<FailsOps>(How::kThrowNumber)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kNoName)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kChangesTerms)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kWritesBeyond)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kBroadcastsBeyond)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kOtherOrder)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kOtherBits)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kOtherThread)),
                                         MISTAKE(Checked<MistakenOps>(Wrong::kMaxAsSum)),
                                     });
}

}  // namespace
}  // namespace meshwork::cross_device_test
