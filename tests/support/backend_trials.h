// Programs on a backend give the numbers of one device of a CPU: what any backend is tried by, besides sessions
// (support/session_trials.h).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/runtime/exec/backend.h"
#include "meshwork/runtime/exec/executor_options.h"
#include "support/program_trial.h"
#include "support/small_training.h"

namespace meshwork {

// The programs draw(seed) of the seeds [part * count, (part + 1) * count), each run in all `ways`.
template <typename Draw>
void TryDrawn(Backend& backend, uint64_t part, uint64_t count, Draw&& draw,
              const std::vector<ExecutorOptions>& ways) {
  int tried = 0;
  for (uint64_t seed = part * count; seed < (part + 1) * count; ++seed) {
    const RandomProgram random = draw(seed);
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    for (const ExecutorOptions& way : ways)
      EXPECT_EQ(TryProgram(random, expected, backend, {}, way).error(), "")
          << "seed " << seed << (way.fuse ? "" : ", op by op");
    ++tried;
  }
  EXPECT_GT(tried, 0);
}

// TrainSmall with these options gives the losses and the weights of a CPU.
inline void ExpectTrainsAsTheCpu(Backend& backend, const ExecutorOptions& options) {
  CpuBackend cpu(2);
  const absl::StatusOr<SmallTraining> expected = TrainSmall(cpu, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  const absl::StatusOr<SmallTraining> trained = TrainSmall(backend, options);
  ASSERT_TRUE(trained.ok()) << trained.status();
  for (size_t i = 0; i < expected->losses.size(); ++i)
    EXPECT_NEAR(trained->losses[i], expected->losses[i], 1e-5 * expected->losses[i]);
  EXPECT_EQ(trained->n.values<int64_t>()[0], 5);
  for (size_t i = 0; i < 30; ++i)
    EXPECT_NEAR(trained->w.values<float>()[i], expected->w.values<float>()[i], 1e-6);
}

}  // namespace meshwork
