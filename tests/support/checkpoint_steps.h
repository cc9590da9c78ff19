// Which checkpoints a folder has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork {

// Their steps, the newest first. All must be readable.
inline std::vector<int64_t> StepsIn(const std::string& dir) {
  std::vector<int64_t> steps;
  const std::vector<FoundCheckpoint> checkpoints = ListCheckpoints(dir).value();
  for (const FoundCheckpoint& found : checkpoints) {
    EXPECT_EQ(MessageOf(found.index.status()), "");
    steps.push_back(found.step);
  }
  return steps;
}

}  // namespace meshwork
