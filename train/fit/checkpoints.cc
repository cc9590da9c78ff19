#include "meshwork/train/fit/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "meshwork/base/clock.h"
#include "meshwork/base/log.h"
#include "meshwork/base/status.h"
#include "meshwork/session/save_restore.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork {
namespace {

constexpr std::string_view kCheckpoints = "the checkpoints", kLast = "the last checkpoint",
                           kPart = "checkpoints";

absl::Status CheckOptions(const CheckpointOptions& options) {
  if (options.dir.empty()) return InvalidArgument("Checkpoints: dir is empty; it names a folder.");
  if (options.keep < 1)
    return InvalidArgument("Checkpoints: keep is {}; at least the newest checkpoint stays.", options.keep);
  if (options.steps < 0)
    return InvalidArgument("Checkpoints: steps is {}; give a positive number, or 0 to go by seconds.",
                           options.steps);
  if (options.steps == 0 && !(options.seconds > 0 && std::isfinite(options.seconds)))
    return InvalidArgument("Checkpoints: seconds is {}; give a positive number, or set steps.",
                           options.seconds);
  return absl::OkStatus();
}

// "every 600 s, the newest 5": what all domains need alike.
std::string Describe(const CheckpointOptions& options) {
  return fmt::format("{}, the newest {}{}{}{}",
                     options.steps > 0 ? fmt::format("every {}", Count(options.steps, "step"))
                                       : fmt::format("every {} s", options.seconds),
                     options.keep,
                     options.best_metric.empty()
                         ? ""
                         : fmt::format(", and the {} {}", options.lowest_is_best ? "lowest" : "highest",
                                       options.best_metric),
                     options.background ? "" : ", waited for",
                     options.resume || options.generation > 0 ? ", going on from the newest" : "");
}

// The folder has no checkpoints of another training.
absl::Status CheckIsFree(const CheckpointOptions& options) {
  if (options.resume || options.generation > 0) return absl::OkStatus();
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(options.dir));
  if (found.empty()) return absl::OkStatus();
  return absl::AlreadyExistsError(fmt::format(
      "{}: has {} of a training, the newest of step {}; go on from it (`resume`; --resume of programs "
      "that have this flag), or name a folder without "
      "checkpoints.",
      options.dir, Count(std::ssize(found), "checkpoint"), found[0].step));
}

// The processes that have locked folders, as the locks say. In a training that has lost a process, each process knows
// who wrote the checkpoints before. If that process was not lost but stopped, or cut off, it still holds the lock.
class FormerHolders {
 public:
  static void Remember(const std::string& dir, const std::string& holder) {
    const std::lock_guard lock(mutex());
    holders()[dir] = holder;
  }
  // The last one; "" if this process knows none.
  static std::string Of(const std::string& dir) {
    const std::lock_guard lock(mutex());
    return holders()[dir];
  }

 private:
  static std::mutex& mutex() {
    static auto* const made = new std::mutex;
    return *made;
  }
  static std::map<std::string, std::string>& holders() {
    static auto* const made = new std::map<std::string, std::string>;
    return *made;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointManager>> CheckpointManager::Open(const CheckpointOptions& options,
                                                                           Session& session, Pulse& pulse) {
  std::unique_ptr<CheckpointManager> manager(new CheckpointManager(options, session, pulse));
  const absl::Status valid = CheckOptions(options);
  MESHWORK_RETURN_IF_ERROR(AllAgree(
      manager->transport_, kCheckpoints,
      valid.ok() ? absl::StatusOr<std::string>(Describe(options)) : absl::StatusOr<std::string>(valid)));
  MESHWORK_ASSIGN_OR_RETURN(const std::string job, NewJob(manager->transport_, kCheckpoints));
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> former, manager->AskForHolders());
  MESHWORK_RETURN_IF_ERROR(AllAgree(manager->transport_, kCheckpoints, manager->OpenWriter(job, former)));
  MESHWORK_RETURN_IF_ERROR(CheckSeen(manager->transport_, options.dir, job));
  MESHWORK_RETURN_IF_ERROR(manager->RememberHolder());
  pulse.Add({std::string(kPart), [m = manager.get()] { return m->Say(); },
             [m = manager.get()](const std::vector<std::string>& texts) { return m->Hear(texts); }});
  manager->has_part_ = true;
  return manager;
}

CheckpointManager::CheckpointManager(const CheckpointOptions& options, Session& session, Pulse& pulse)
    : options_(options), session_(session), pulse_(pulse), transport_(session.Here().transport) {
  if (options_.clock == nullptr) options_.clock = SteadySeconds;
  last_begun_ = options_.clock();
}

CheckpointManager::~CheckpointManager() {
  if (has_part_) pulse_.Remove(kPart);
  if (writer_ != nullptr && !is_finished_) writer_->Abandon();
}

absl::StatusOr<std::vector<std::string>> CheckpointManager::AskForHolders() const {
  if (options_.generation == 0) return std::vector<std::string>();
  const std::string holder = FormerHolders::Of(options_.dir);
  if (transport_ == nullptr) return std::vector<std::string>{holder};
  return transport_->AllGather(kCheckpoints, holder);
}

absl::Status CheckpointManager::OpenWriter(const std::string& job, const std::vector<std::string>& former) {
  const bool is_only = transport_ == nullptr;
  const CheckpointWriterOptions options{.dir = options_.dir,
                                        .domain = is_only ? 0 : transport_->domain(),
                                        .num_domains = is_only ? 1 : transport_->num_domains(),
                                        .job = job,
                                        .keep = options_.keep,
                                        .best_metric = options_.best_metric,
                                        .lowest_is_best = options_.lowest_is_best};
  is_chief_ = options.domain == 0;
  absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer = CheckpointWriter::Open(options);
  const std::string holder = writer.ok() ? "" : CheckpointLock::HolderOf(options_.dir);
  if (absl::IsAlreadyExists(writer.status()) && !holder.empty() &&
      std::find(former.begin(), former.end(), holder) != former.end()) {
    // If that process ever writes another checkpoint, it finds the lock taken.
    CheckpointLock::TakeAway(options_.dir);
    writer = CheckpointWriter::Open(options);
  }
  MESHWORK_RETURN_IF_ERROR(writer.status());
  writer_ = *std::move(writer);
  return is_chief_ ? CheckIsFree(options_) : absl::OkStatus();
}

absl::Status CheckpointManager::RememberHolder() {
  std::string holder = is_chief_ ? CheckpointLock::HolderOf(options_.dir) : "";
  if (transport_ != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> holders,
                              transport_->AllGather(kCheckpoints, holder));
    holder = holders[0];
  }
  FormerHolders::Remember(options_.dir, holder);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<CheckpointNote>> CheckpointManager::Restore(const RestoreOptions& options) {
  MESHWORK_ASSIGN_OR_RETURN(const std::optional<CheckpointNote> note,
                            RestoreState(session_.Here(), options_.dir, options, options_.report));
  if (note.has_value()) last_step_ = complete_step_ = note->step;
  return note;
}

// "1 200": a checkpoint is due, and that of step 200 is complete.
std::string CheckpointManager::Say() {
  Look();
  if (!is_chief_) return "";
  const bool is_due =
      options_.steps == 0 && !writer_->is_writing() && options_.clock() - last_begun_ >= options_.seconds;
  return fmt::format("{} {}", is_due ? 1 : 0, complete_step_);
}

absl::Status CheckpointManager::Hear(const std::vector<std::string>& texts) {
  is_due_ = texts[0].starts_with("1");
  last_step_ = std::stoll(texts[0].substr(2));
  return absl::OkStatus();
}

absl::StatusOr<bool> CheckpointManager::AfterStep(int64_t step, const std::function<CheckpointNote()>& note) {
  Look();
  const bool is_due = options_.steps > 0 ? step % options_.steps == 0 : std::exchange(is_due_, false);
  if (is_due) MESHWORK_RETURN_IF_ERROR(Begin(note()));
  return is_due;
}

namespace {

// The folder could be opened, so an error of the last checkpoint is no wrong input, whatever its code: a disk is full,
// a quota is used up, a mount is gone. A program that ends with it may be started again.
absl::Status AsFailure(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnknown:           // EIO
    case absl::StatusCode::kNotFound:          // ENOENT
    case absl::StatusCode::kPermissionDenied:  // EACCES
    case absl::StatusCode::kOutOfRange:        // EFBIG
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:  // EROFS
      return absl::Status(absl::StatusCode::kResourceExhausted, status.message());
    default: return status;
  }
}

}  // namespace

absl::Status CheckpointManager::Finish(const CheckpointNote& note) {
  MESHWORK_RETURN_IF_ERROR(Await());
  Report(End());
  std::string is_there = complete_step_ == note.step ? "1" : "0";
  if (transport_ != nullptr) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts, transport_->AllGather(kLast, is_there));
    is_there = texts[0];
  }
  if (is_there == "0") {
    absl::Status status = Start(note);
    MESHWORK_RETURN_IF_ERROR(Await());
    if (absl::Status ended = End(); status.ok()) status = std::move(ended);
    MESHWORK_RETURN_IF_ERROR(AllAgree(transport_, kLast, AsFailure(status)));
  }
  last_step_ = note.step;
  is_finished_ = true;
  return absl::OkStatus();
}

void CheckpointManager::Look() {
  if (begun_step_ >= 0 && !writer_->is_writing()) Report(End());
}

absl::Status CheckpointManager::End() {
  if (begun_step_ < 0) return absl::OkStatus();
  absl::Status status = EndOf(*writer_);
  const int64_t step = std::exchange(begun_step_, -1);
  if (status.ok()) complete_step_ = step;
  return status;
}

absl::Status CheckpointManager::Start(const CheckpointNote& note) {
  last_begun_ = options_.clock();
  is_under_way_ = true;
  MESHWORK_RETURN_IF_ERROR(writer_->Begin(note, session_.Here().variables));
  begun_step_ = note.step;
  return absl::OkStatus();
}

absl::Status CheckpointManager::Await() {
  if (!std::exchange(is_under_way_, false)) return absl::OkStatus();
  return AwaitWriters(transport_, *writer_);
}

absl::Status CheckpointManager::Begin(const CheckpointNote& note) {
  MESHWORK_RETURN_IF_ERROR(Await());
  Report(End());
  Report(Start(note));
  if (options_.background) return absl::OkStatus();
  MESHWORK_RETURN_IF_ERROR(Await());
  Report(End());
  return absl::OkStatus();
}

void CheckpointManager::Report(const absl::Status& status) const {
  if (status.ok()) return;
  const int64_t last = is_chief_ ? complete_step_ : last_step_;
  const std::string line = fmt::format(
      "{} {}; the training goes on, and tries the next one. See that {} can be written and has room.",
      MessageOf(status),
      last < 0 ? "There is no complete checkpoint" : fmt::format("The last checkpoint is of step {}", last),
      options_.dir);
  if (options_.report != nullptr) options_.report(line);
  else LogText(LogLevel::kWarning, line);
}

}  // namespace meshwork
