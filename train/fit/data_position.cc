#include "meshwork/train/fit/data_position.h"

#include <charconv>
#include <string>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kMost = (int64_t{1} << 31) - 1;  // products of two are numbers, too

std::string SeedOf(const InputSpec& input) {
  return input.batches.shuffle_seed.has_value() ? fmt::format("{}", *input.batches.shuffle_seed) : "none";
}

absl::StatusOr<std::string> FactIn(const CheckpointFacts& facts, const std::string& name) {
  const auto fact = facts.find(name);
  if (fact != facts.end()) return fact->second;
  return InvalidArgument(
      "the checkpoint does not say its position in the data: the fact \"{}\" is missing; TrainAndEvaluate goes on from its "
      "own checkpoints only.",
      name);
}

absl::StatusOr<int64_t> NumberIn(const CheckpointFacts& facts, const std::string& name, int64_t at_least) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, FactIn(facts, name));
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= at_least && number <= kMost)
    return number;
  return InvalidArgument("the checkpoint's fact {} is {}; it must be a whole number, {} to {}.", Quoted(name),
                         Quoted(text), at_least, kMost);
}

}  // namespace

void DataPosition::Advance(const InputSpec& input) {
  ++batch;
  if (batch * input.batches.batch_size < input.dataset.size()) return;
  ++epoch;
  batch = 0;
}

CheckpointFacts FactsOf(const DataPosition& position, const InputSpec& input) {
  return {{"epoch", fmt::format("{}", position.epoch)},
          {"batch", fmt::format("{}", position.batch)},
          {"batch_size", fmt::format("{}", input.batches.batch_size)},
          {"examples", fmt::format("{}", input.dataset.size())},
          {"shuffle_seed", SeedOf(input)},
          {"lanes", fmt::format("{}", input.batches.lanes)}};
}

absl::StatusOr<DataPosition> PositionIn(const CheckpointFacts& facts, const InputSpec& input) {
  DataPosition position;
  MESHWORK_ASSIGN_OR_RETURN(position.epoch, NumberIn(facts, "epoch", 0));
  MESHWORK_ASSIGN_OR_RETURN(position.batch, NumberIn(facts, "batch", 0));
  MESHWORK_ASSIGN_OR_RETURN(const int64_t batch_size, NumberIn(facts, "batch_size", 1));
  for (const auto& [name, mine] : FactsOf({}, input)) {
    if (name == "epoch" || name == "batch" || name == "batch_size") continue;
    MESHWORK_ASSIGN_OR_RETURN(const std::string theirs, FactIn(facts, name));
    if (theirs != mine)
      return InvalidArgument(
          "the training has begun with {} = {}, and now {} = {}; the examples would come in another order: give the same "
          "data, seed and lanes, or begin in another model_dir.",
          name, Printable(theirs), name, mine);
  }
  position.batch = position.batch * batch_size / input.batches.batch_size;
  return position;
}

}  // namespace meshwork
