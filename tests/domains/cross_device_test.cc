// Cross-device ops on devices of several domains: the op makes the sums within a domain, and not those across domains.
#include "meshwork/runtime/plan/cross_device.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "domains/small_network.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "meshwork/base/status.h"
#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "support/cross_device_ops.h"
#include "support/in_domains.h"

namespace meshwork::cross_device_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kTrainedSteps = 5;

std::vector<double> LossesWith(Transport* transport, std::shared_ptr<CrossDeviceOps> ops) {
  SessionOptions options{.workers = 1, .own_cores = false};
  options.executor.poison_padding = options.executor.check_replicas = true;
  options.executor.transport = transport;
  options.executor.cross_device_ops = std::move(ops);
  options.executor.bytes_per_pack = 1 << 20;
  absl::StatusOr<Session> session = Session::Create(SmallNetwork("batch=4"), options);
  std::vector<double> losses;
  for (int64_t step = 0; step < kTrainedSteps; ++step) {
    const absl::StatusOr<StepResult> result =
        session.ok() ? session->Run(SmallFeeds(step)) : session.status();
    if (!result.ok()) {
      ADD_FAILURE() << result.status();
      break;
    }
    losses.push_back(result->scalar("loss").value());
  }
  return losses;
}

// The losses of each domain.
std::vector<std::vector<double>> LossesInTwo(const std::vector<std::shared_ptr<CrossDeviceOps>>& ops) {
  std::vector<std::vector<double>> losses(2);
  InDomains(2, [&](Transport& end) {
    const auto d = static_cast<size_t>(end.domain());
    losses[d] = LossesWith(&end, ops[d]);
  });
  return losses;
}

TEST(CrossDeviceDomainsTest, TrainAsOneDomainDoes) {
  const std::vector<double> expected = LossesWith(nullptr, nullptr);
  for (const auto& ops : {ReductionToOneDevice(), RingAllReduce(), HierarchicalCopyAllReduce().value()}) {
    SCOPED_TRACE(ops->name());
    for (const std::vector<double>& losses : LossesInTwo({ops, ops})) {
      ASSERT_EQ(losses.size(), expected.size());
      for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << "step " << i;
    }
  }
}

// A sum that goes on to the other domain is reduced to one device; it is not broadcast to the devices before.
TEST(CrossDeviceDomainsTest, WhatGoesOnIsReducedOnly) {
  const auto first = std::make_shared<BackwardsOps>(), second = std::make_shared<BackwardsOps>();
  LossesInTwo({first, second});
  EXPECT_THAT(first->devices, ElementsAre(0, 1));
  EXPECT_THAT(second->devices, ElementsAre(2, 3));
  for (const auto& ops : {first, second}) {
    EXPECT_GE(ops->reductions, kTrainedSteps);
    EXPECT_EQ(ops->broadcasts, 0);
  }
}

// The op decides what crosses between domains, so all domains must have the same op.
TEST(CrossDeviceDomainsTest, AnotherOpInAnotherDomainIsRefused) {
  std::vector<std::string> errors(2);
  InDomains(2, [&](Transport& end) {
    SessionOptions options{.workers = 1, .own_cores = false};
    options.executor.transport = &end;
    if (end.domain() == 1) options.executor.cross_device_ops = RingAllReduce();
    errors[static_cast<size_t>(end.domain())] =
        MessageOf(Session::Create(SmallNetwork("batch=4"), options).status());
  });
  for (const std::string& error : errors)
    EXPECT_THAT(error, ::testing::HasSubstr("cross_device_ops=RingAllReduce bytes_per_pack=0"));
}

}  // namespace
}  // namespace meshwork::cross_device_test
