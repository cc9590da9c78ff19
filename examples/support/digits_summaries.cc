#include "examples/support/digits_summaries.h"

#include <string>
#include <utility>

#include "examples/support/digits_weights.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr int64_t kEvery = 10;                 // steps
constexpr int64_t kImages = 32, kColumns = 8;  // of the panel
constexpr int64_t kSide = 28;                  // of an image

}  // namespace

absl::StatusOr<DigitsSummaries> DigitsSummaries::Create(const DigitsModel& model, const Graph& graph,
                                                        const Session& session, const Data& data,
                                                        const DigitsOptions& options, int64_t first_step) {
  DigitsSummaries summaries(model, session, data, options);
  const std::string& dir = options.tensorboard;
  if (Transport* const transport = options.run.processes->transport(); transport != nullptr)
    MESHWORK_RETURN_IF_ERROR(
        Agree(*transport, "--tensorboard", std::string(dir.empty() ? "is not given" : "is given")));
  if (dir.empty() || !options.run.is_chief()) return summaries;
  for (const auto& [run, writer] :
       {std::pair{"train", &summaries.train_}, std::pair{"test", &summaries.test_}}) {
    absl::StatusOr<SummaryWriter> log =
        SummaryWriter::Create(fmt::format("{}/{}", dir, run), {.purge_step = first_step + 1});
    if (!log.ok()) return Annotate(log.status(), "--tensorboard: ");
    *writer = *std::move(log);
  }
  summaries.Note(summaries.train_->Graph(graph));
  return summaries;
}

void DigitsSummaries::Note(const absl::Status& status) {
  if (status.ok() || has_failed_) return;
  has_failed_ = true;
  fmt::print(stderr, "{}: --tensorboard: {} The training goes on.\n", model_.program, MessageOf(status));
}

void DigitsSummaries::BeginEpoch(const BatchesOptions& batches, int64_t steps_done) {
  if (!train_.has_value()) return;
  const BatchesOptions shown = {
      .batch_size = kImages, .shuffle_seed = batches.shuffle_seed, .epoch = batches.epoch};
  for (const Batch& batch : data_.digits.train.Batches(shown)) {
    const absl::StatusOr<Tensor> panel =
        ImageGrid(batch["image"].Reshaped({batch.rows(), kSide, kSide}), kColumns);
    Note(panel.ok() ? train_->Image("inputs/first_of_the_epoch", *panel, steps_done) : panel.status());
    break;
  }
  timed_step_ = steps_done;
  timed_at_ = SteadySeconds();
}

void DigitsSummaries::Step(int64_t step, double loss, double accuracy) {
  if (!train_.has_value() || step % kEvery != 0) return;
  Note(train_->Scalar("loss", loss, step));
  Note(train_->Scalar("accuracy", accuracy, step));
  const double now = SteadySeconds();
  if (now > timed_at_)
    Note(train_->Scalar("steps_per_second", static_cast<double>(step - timed_step_) / (now - timed_at_),
                        step));
  timed_step_ = step;
  timed_at_ = now;
}

absl::Status DigitsSummaries::EndEpoch(int64_t step, double test_loss, double test_accuracy) {
  if (options_.tensorboard.empty()) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(model_, session_));
  if (!train_.has_value()) return absl::OkStatus();
  Note(test_->Scalar("loss", test_loss, step));
  Note(test_->Scalar("accuracy", test_accuracy, step));
  for (const auto& [name, tensor] : weights) Note(train_->Histogram(name, tensor, step));
  return absl::OkStatus();
}

void DigitsSummaries::Close() {
  for (std::optional<SummaryWriter>* const log : {&train_, &test_})
    if (log->has_value()) Note((*log)->Close());
}

}  // namespace meshwork
