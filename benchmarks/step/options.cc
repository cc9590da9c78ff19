#include "benchmarks/step/options.h"

#include <algorithm>

#include "benchmarks/lists.h"
#include "benchmarks/step/step.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMostSteps = 1'000'000;
// Steps of a round, if --steps does not give them.
constexpr int64_t kExamplesPerRound = 2560, kFewestSteps = 3;

}  // namespace

int64_t StepOptions::StepsOf(int64_t batch) const {
  return steps > 0 ? steps : std::max(kFewestSteps, kExamplesPerRound / batch);
}

absl::StatusOr<StepOptions> ParseStepOptions(int argc, const char* const* argv) {
  StepOptions o;
  const StepModel& model = TheStepModel();
  std::string batches(model.batches), only, memory = "on", meshes(model.meshes);
  FlagTable flags(std::string(model.program), std::string(model.about));
  flags.Text("batch", "examples per step, a list with commas", &batches);
  flags.Text(
      "meshes",
      "a list with spaces; with \"/unshared\", every device stores and computes all of its own values;\n"
      "                     with \"/atomic\", a step that fails would change nothing (ExecutorOptions::atomic)",
      &meshes);
  flags.Text(
      "only",
      model.by_hand == nullptr
          ? "one mesh of --meshes' kind alone in the process, whose peak memory is then its own"
          : "one mesh of --meshes' kind or by_hand, alone in the process, whose peak memory is then its own",
      &only);
  flags.Int("repeats", "rounds of each", &o.repeats, 1, kMostSteps);
  flags.Int("steps", "of a round, after one that is not timed; 0: as many as take 2560 examples, at least 3",
            &o.steps, 0, kMostSteps);
  flags.Choice("memory", "runs each mesh in a process of its own, for its peak memory", &memory,
               {"on", "off"});
  flags.Text("json", "writes what was measured as JSON into this file; -: to standard output, and no table",
             &o.json);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  MESHWORK_ASSIGN_OR_RETURN(o.batches, ParseBatches("--batch", batches, ','));
  o.is_alone = !only.empty();
  o.measures_memory = memory == "on" && !o.is_alone;
  if (o.is_alone) {
    o.variants = {only};
  } else {
    o.variants = Split(meshes, ' ');
    if (o.variants.empty())
      return InvalidArgument("--meshes: the list is empty; write for example \"batch=8 batch=4,model=2\".");
    if (model.by_hand != nullptr) o.variants.insert(o.variants.begin(), std::string(kByHand));
  }
  return o;
}

}  // namespace meshwork
