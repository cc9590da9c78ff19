// Sessions on a GPU that is simulated.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "cuda_backend/played_gpu.h"
#include "meshwork.h"
#include "support/small_session.h"

namespace meshwork {

inline Session OnGpu(PlayedGpu& gpu, const Graph& graph, SessionOptions options = {}) {
  options.backend = gpu.MakeBackend().value();
  return Session::Create(graph, std::move(options)).value();
}

inline void ExpectClean(PlayedGpu& gpu) {
  EXPECT_THAT(gpu.cuda.TakeFindings(), testing::IsEmpty());
  EXPECT_THAT(gpu.cuda.TakeLeaks(), testing::IsEmpty());
}

}  // namespace meshwork
