#include "meshwork/runtime/communicator.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/worker_pool.h"

namespace meshwork {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// sum = a + b over 100 elements, worker 0 doing 64 of them and worker 1 the rest.
CollectivePlan SumPlan() {
  Transfer transfer;
  transfer.box = BoxCopy::Linear(100);
  transfer.to = 0;
  transfer.from = {1, 2};
  return {"all_reduce (model.cc:41)", {transfer}, {{{0, 0, 64}}, {{0, 64, 100}}}};
}

class CommunicatorTest : public ::testing::Test {
 protected:
  std::byte* Pointer(std::vector<float>& v) { return reinterpret_cast<std::byte*>(v.data()); }
  std::vector<float> sum_ = std::vector<float>(100, 0), a_ = std::vector<float>(100, 1),
                     b_ = std::vector<float>(100, 2);
  std::vector<std::byte*> addresses_ = {Pointer(sum_), Pointer(a_), Pointer(b_)};
  std::unique_ptr<Communicator> communicator_ = MakeThreadCommunicator();
};

TEST_F(CommunicatorTest, EachWorkerDoesItsSlices) {
  auto collective = communicator_->Prepare(SumPlan(), addresses_).value();
  WorkerPool pool(2);
  for (int step = 0; step < 3; ++step) {
    a_.assign(100, static_cast<float>(step));
    std::vector<absl::Status> statuses(2);
    pool.Run([&](int worker) {
      collective->Start(worker);
      statuses[worker] = collective->Wait(worker);
    });
    EXPECT_THAT(statuses, Each(absl::OkStatus()));
    EXPECT_THAT(sum_, Each(2.0f + static_cast<float>(step)));
  }
}

TEST_F(CommunicatorTest, AddressesMayChangeBetweenSteps) {
  auto collective = communicator_->Prepare(SumPlan(), addresses_).value();
  std::vector<float> other(100, 40);
  addresses_[1] = Pointer(other);
  for (int worker : {0, 1}) collective->Start(worker);
  EXPECT_THAT(sum_, Each(42.0f));
}

TEST_F(CommunicatorTest, AbortEndsEveryWaitWithTheFirstReason) {
  auto collective = communicator_->Prepare(SumPlan(), addresses_).value();
  communicator_->Abort(absl::CancelledError("the user pressed ctrl-C"));
  communicator_->Abort(absl::InternalError("later"));
  for (int worker : {0, 1}) {
    collective->Start(worker);
    const absl::Status status = collective->Wait(worker);
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(MessageOf(status), "all_reduce (model.cc:41): the user pressed ctrl-C");
  }
  EXPECT_THAT(sum_, Each(0.0f));
}

}  // namespace
}  // namespace meshwork
