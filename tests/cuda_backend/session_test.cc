// Sessions on a simulated GPU compute the same as sessions on the CPU.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "cuda_backend/played_session.h"
#include "support/session_trials.h"

namespace meshwork::session_test {
namespace {

// The seed decides which libraries the GPU has.
void Try(uint64_t seed, void (*trial)(const MakeSession& make)) {
  PlayedGpu gpu(seed);
  trial([&](const Graph& graph, SessionOptions options) { return OnGpu(gpu, graph, std::move(options)); });
  ExpectClean(gpu);
}

TEST(CudaSessionTest, TrainsAndEvaluatesAsOnTheCpu) { Try(1, TryTraining); }
TEST(CudaSessionTest, InitialValuesByLinearAlgebraAreThoseOfTheCpu) { Try(3, TryInitialValues); }
TEST(CudaSessionTest, VariablesAreReadAndSet) { Try(2, TryReadingAndSetting); }
TEST(CudaSessionTest, CheckpointsGoFromOneToTheOther) { Try(3, TryCheckpoints); }
TEST(CudaSessionTest, GoesOnOnAnotherMesh) { Try(4, TryRemesh); }
TEST(CudaSessionTest, BindsToMemoryOfBoth) { Try(5, TryBinding); }
TEST(CudaSessionTest, FitEvaluatesAndRestoresTheBestEpoch) { Try(6, TryFit); }

}  // namespace
}  // namespace meshwork::session_test
