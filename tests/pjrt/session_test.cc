// Sessions on a PJRT plugin compute the same as sessions on the CPU.
#include <gtest/gtest.h>

#include <utility>

#include "pjrt/real_plugin.h"
#include "support/session_trials.h"

namespace meshwork::pjrt_session_test {
namespace {

class PjrtSessionTest : public RealPluginTest {
 protected:
  const MakeSession make_ = [](const Graph& graph, SessionOptions options) {
    options.devices = RealPjrtDevices();
    return Session::Create(graph, std::move(options)).value();
  };
};

TEST_F(PjrtSessionTest, TrainsAndEvaluatesAsOnTheCpu) { TryTraining(make_); }
TEST_F(PjrtSessionTest, InitialValuesByLinearAlgebraAreThoseOfTheCpu) { TryInitialValues(make_); }
TEST_F(PjrtSessionTest, VariablesAreReadAndSet) { TryReadingAndSetting(make_); }
TEST_F(PjrtSessionTest, CheckpointsGoFromOneToTheOther) { TryCheckpoints(make_); }
TEST_F(PjrtSessionTest, GoesOnOnAnotherMesh) { TryRemesh(make_); }
TEST_F(PjrtSessionTest, BindsToMemoryOfBoth) { TryBinding(make_); }
TEST_F(PjrtSessionTest, FitEvaluatesAndRestoresTheBestEpoch) { TryFit(make_); }

}  // namespace
}  // namespace meshwork::pjrt_session_test
