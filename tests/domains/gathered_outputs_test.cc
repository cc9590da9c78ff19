// Sessions on two domains of this process that gather their outputs.
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"
#include "meshwork/session/session.h"
#include "support/in_domains.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"
#include "support/tensors.h"

namespace meshwork::gathered_outputs_test {
namespace {

// Each domain has the outputs whole, both those of the step and those of an evaluation of a single output. The
// outputs of the step are those of one device.
TEST(GatheredOutputsTest, AreThoseOfOneDevice) {
  const RandomPrograms programs;
  int tried = 0;
  for (uint64_t seed = 0; tried < (LongTests() ? 1000 : 60); ++seed) {
    const RandomProgram random = seed % 3 == 0 ? programs.DrawLoops(seed) : programs.Draw(seed);
    if (random.graph.mesh().num_devices() % 2 != 0) continue;
    const Expected expected = ExpectedOf(random);
    if (!std::isfinite(expected.scale)) continue;
    ++tried;
    Feeds feeds;
    for (const Argument& argument : random.graph.arguments()) {
      const ValueInfo& info = random.graph.value(argument.value);
      feeds.emplace(info.name, ToTensor(HostTensor(info.type, random.feeds.at(info.name))));
    }
    InDomains(2, [&](Transport& end) {
      SessionOptions options{.workers = 1, .own_cores = false, .gather_outputs = true};
      options.executor.poison_padding = options.executor.check_replicas = true;
      options.executor.transport = &end;
      absl::StatusOr<Session> session = Session::Create(random.graph, options);
      ASSERT_TRUE(session.ok()) << "seed " << seed << ": " << session.status() << PrintGraph(random.graph);
      Feeds inputs;
      for (const auto& [name, tensor] : feeds) {
        if (session->LayoutOf(name).ok()) ASSERT_TRUE(session->Set(name, tensor).ok());
        else inputs.emplace(name, tensor);
      }
      const absl::StatusOr<StepResult> step = session->Run(inputs);
      ASSERT_TRUE(step.ok()) << "seed " << seed << ": " << step.status() << PrintGraph(random.graph);
      for (const auto& [name, value] : expected.step.outputs) {
        const std::vector<double> found = NumbersOf(step->Get(name).value()), wanted = value.Numbers();
        const double epsilon = value.type().dtype == BF16 ? 2e-2 : value.type().dtype == F32 ? 1e-5 : 1e-12;
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < found.size(); ++i)
          ASSERT_NEAR(found[i], wanted[i], epsilon * expected.scale) << "seed " << seed << ", " << name;
        const absl::Status alone = session->Evaluate(inputs, {name}).status();
        ASSERT_TRUE(alone.ok()) << "seed " << seed << ", " << name << ": " << alone
                                << PrintGraph(random.graph);
      }
    });
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace meshwork::gathered_outputs_test
