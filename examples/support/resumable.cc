#include "examples/support/resumable.h"

#include <charconv>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/train/cluster/stop_signals.h"

namespace meshwork {
namespace {

template <typename T>
T NumberIn(const std::optional<CheckpointNote>& note, const std::string& fact) {
  T value{};
  if (!note.has_value()) return value;
  const auto found = note->facts.find(fact);
  if (found == note->facts.end()) return value;
  std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  return value;
}

}  // namespace

Resumable::Resumable(const RunOptions& options, Session& session, CheckpointFacts fixed)
    : options_(options),
      session_(session),
      fixed_(std::move(fixed)),
      pulse_(options.processes->transport(),
             {.name = options.processes->Name(),
              .stop = options.checkpoint_dir.empty() ? std::function<bool()>() : IsStopAsked}) {}

absl::StatusOr<std::unique_ptr<Resumable>> Resumable::Begin(const RunOptions& options, Session& session,
                                                            CheckpointFacts fixed) {
  std::unique_ptr<Resumable> training(new Resumable(options, session, std::move(fixed)));
  MESHWORK_ASSIGN_OR_RETURN(training->replicas_, MakeReplicaCheck(options));
  MESHWORK_ASSIGN_OR_RETURN(training->from_, options.processes->Recover(session));
  training->is_from_memory_ = training->from_.has_value();
  MESHWORK_RETURN_IF_ERROR(training->OpenCheckpoints());
  session.set_steps_done(training->first_step());
  MESHWORK_RETURN_IF_ERROR(options.processes->Keep(
      session, training->from_.has_value() ? training->from_->facts : CheckpointFacts()));
  return training;
}

absl::Status Resumable::OpenCheckpoints() {
  const RunOptions& options = options_;
  if (options.checkpoint_dir.empty()) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(CheckpointOptions checkpoints, CheckpointEvery(options.checkpoint_every));
  checkpoints.dir = options.checkpoint_dir;
  checkpoints.keep = options.keep_checkpoints;
  checkpoints.resume = options.resume;
  checkpoints.generation = options.processes->generation();
  MESHWORK_ASSIGN_OR_RETURN(checkpoints_, CheckpointManager::Open(checkpoints, session_, pulse_));
  if (!from_.has_value()) {
    MESHWORK_ASSIGN_OR_RETURN(from_, checkpoints_->Restore());
  }
  MESHWORK_RETURN_IF_ERROR(CheckFixed());
  CatchStopSignals();
  return absl::OkStatus();
}

absl::Status Resumable::CheckFixed() const {
  if (!from_.has_value()) return absl::OkStatus();
  for (const auto& [name, value] : fixed_) {
    const auto before = from_->facts.find(name);
    if (before == from_->facts.end() || before->second == value) continue;
    return InvalidArgument(
        "{}: the training began with {} {} and is to go on with {}; its next examples would be others. Give the same "
        "flags, or begin anew in another folder.",
        options_.checkpoint_dir, name, before->second, value);
  }
  return absl::OkStatus();
}

void Resumable::PrintFrom() const {
  if (!from_.has_value()) return;
  fmt::print(Out(), "goes on after step {}, from {}\n", from_->step,
             is_from_memory_ ? "memory" : options_.checkpoint_dir);
}

int64_t Resumable::Number(const std::string& fact) const { return NumberIn<int64_t>(from_, fact); }
double Resumable::Real(const std::string& fact) const { return NumberIn<double>(from_, fact); }

CheckpointNote Resumable::Note(int64_t step, CheckpointFacts facts) const {
  facts.insert(fixed_.begin(), fixed_.end());
  return {.step = step, .facts = std::move(facts)};
}

absl::Status Resumable::AfterStep(int64_t step, const std::function<CheckpointFacts()>& facts) {
  if (options_.processes->recovers()) options_.processes->Note(Note(step, facts()).facts);
  // First, so that no checkpoint is written if replicas differ.
  MESHWORK_RETURN_IF_ERROR(replicas_.AfterStep(step, session_));
  MESHWORK_RETURN_IF_ERROR(pulse_.AfterStep());
  if (checkpoints_ == nullptr) return absl::OkStatus();
  return checkpoints_->AfterStep(step, [&] { return Note(step, facts()); }).status();
}

absl::Status Resumable::End(int64_t step, const CheckpointFacts& facts) {
  if (checkpoints_ == nullptr) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(checkpoints_->Finish(Note(step, facts)));
  if (!pulse_.stops()) return absl::OkStatus();
  EndWith(static_cast<int>(options_.stop_exit_code));
  fmt::print(Out(), "stopped after step {}, as a signal asked {}; --resume goes on from {}\n", step,
             pulse_.stopped_by(), options_.checkpoint_dir);
  return absl::OkStatus();
}

}  // namespace meshwork
