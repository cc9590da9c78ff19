#include "meshwork/session/save_restore.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/base/log.h"
#include "meshwork/base/quote.h"
#include "meshwork/base/random_name.h"
#include "meshwork/base/status.h"
#include "meshwork/storage/checkpoint_folder.h"

namespace meshwork {
namespace {

constexpr std::string_view kToSave = "the checkpoint to save", kToRestore = "the checkpoint to restore",
                           kFolder = "the folder of checkpoints";
constexpr std::chrono::milliseconds kFirstLook(1), kLastLook(200), kUntilSeen(3000);

// Waits a while for a file, because network file systems are slow to show it. Returns whether it is there.
bool ComesToBe(const std::string& path) {
  const auto end = std::chrono::steady_clock::now() + kUntilSeen;
  std::error_code ignored;
  while (!std::filesystem::exists(path, ignored)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kFirstLook);
  }
  return true;
}

// What a domain tells the others about a checkpoint that it has looked at: "", or a letter and the reason.
constexpr char kDamaged = 'd', kMisfit = 'm';

// What all domains together found wrong with a checkpoint.
struct Found {
  absl::Status damaged, misfit;
};

class Restoring {
 public:
  Restoring(const DomainState& state, const std::string& path, const RestoreOptions& options,
            const std::function<void(std::string_view)>& report)
      : state_(state), path_(path), options_(options), report_(report) {}

  absl::StatusOr<std::optional<CheckpointNote>> Run() {
    absl::Status first;  // why the newest one cannot be used
    for (int64_t tried = 0;; ++tried) {
      MESHWORK_ASSIGN_OR_RETURN(const std::optional<std::string> name, Choose());
      if (!name.has_value() && tried == 0) return std::nullopt;
      if (!name.has_value()) return first;
      const std::string path = name->empty() ? path_ : fmt::format("{}/{}", path_, *name);
      absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(path);
      MESHWORK_ASSIGN_OR_RETURN(const Found found, Look(checkpoint));
      MESHWORK_RETURN_IF_ERROR(found.misfit);
      if (found.damaged.ok()) return Read(*checkpoint);
      if (first.ok()) first = found.damaged;
      if (state_.domain() == 0 && !name->empty()) Skip(found.damaged);
    }
  }

 private:
  // The name of the next checkpoint, the newest first; "": the path is a checkpoint itself. Nothing: there is no other
  // one. Domain 0 decides.
  absl::StatusOr<std::optional<std::string>> Choose() {
    absl::Status status;
    std::optional<std::string> name;
    if (state_.domain() == 0) status = Next(name);
    MESHWORK_RETURN_IF_ERROR(AllAgree(state_.transport, kToRestore, status));
    if (state_.transport == nullptr) return name;
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                              state_.transport->AllGather(kToRestore, name.has_value() ? "=" + *name : ""));
    if (texts[0].empty()) return std::nullopt;
    return texts[0].substr(1);
  }

  absl::Status Next(std::optional<std::string>& name) {
    std::error_code ignored;
    if (!is_listed_) {
      is_listed_ = true;
      if (std::filesystem::exists(path_ + "/index.json", ignored)) {
        name = "";
        return absl::OkStatus();
      }
      MESHWORK_ASSIGN_OR_RETURN(found_, ListCheckpoints(path_));
    }
    if (next_ < found_.size()) name = std::filesystem::path(found_[next_++].path).filename().string();
    return absl::OkStatus();
  }

  // Finds out whether all domains can read it. The error of one is the error of all.
  absl::StatusOr<Found> Look(const absl::StatusOr<Checkpoint>& checkpoint) {
    absl::Status damaged = checkpoint.status(), misfit;
    if (damaged.ok() && options_.verify) damaged = checkpoint->Verify(state_.domain(), state_.num_domains());
    if (damaged.ok()) misfit = checkpoint->CheckFits(state_.variables, options_);
    if (state_.transport == nullptr) return Found{damaged, misfit};
    std::string text;
    if (!damaged.ok()) text = kDamaged + EncodeReason(damaged);
    else if (!misfit.ok()) text = kMisfit + EncodeReason(misfit);
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                              state_.transport->AllGather(kToRestore, text));
    Found found;
    for (size_t d = 0; d < texts.size(); ++d) {
      if (texts[d].empty()) continue;
      absl::Status& of = texts[d][0] == kDamaged ? found.damaged : found.misfit;
      if (of.ok())
        of = Annotate(DecodeReason(texts[d].substr(1)), d == 0 ? "" : fmt::format("domain {}: ", d));
    }
    return found;
  }

  absl::StatusOr<std::optional<CheckpointNote>> Read(const Checkpoint& checkpoint) {
    const CheckpointIndex& index = checkpoint.index();
    MESHWORK_RETURN_IF_ERROR(
        AllAgree(state_.transport, kToRestore, checkpoint.RestoreInto(state_.variables, options_)));
    return CheckpointNote{index.step, index.facts, index.metrics};
  }

  void Skip(const absl::Status& damaged) const {
    const std::string line =
        fmt::format("{} The checkpoint is not used{}", PrintableLines(MessageOf(damaged)),
                    next_ < found_.size() ? "; the one before it is tried." : ".");
    if (report_ != nullptr) report_(line);
    else LogText(LogLevel::kWarning, line);
  }

  const DomainState& state_;
  const std::string& path_;
  const RestoreOptions& options_;
  const std::function<void(std::string_view)>& report_;
  // Used in domain 0.
  bool is_listed_ = false;
  std::vector<FoundCheckpoint> found_;
  size_t next_ = 0;
};

}  // namespace

absl::Status AllAgree(Transport* transport, std::string_view what, const absl::StatusOr<std::string>& mine) {
  return transport == nullptr ? mine.status() : Agree(*transport, what, mine);
}

absl::Status AllAgree(Transport* transport, std::string_view what, const absl::Status& mine) {
  return AllAgree(transport, what,
                  mine.ok() ? absl::StatusOr<std::string>("done") : absl::StatusOr<std::string>(mine));
}

absl::StatusOr<std::string> NewJob(Transport* transport, std::string_view what) {
  std::string job = RandomName();
  if (transport == nullptr) return job;
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> jobs, transport->AllGather(what, job));
  return jobs[0];
}

absl::Status CheckSeen(Transport* transport, const std::string& dir, const std::string& job) {
  if (transport == nullptr) return absl::OkStatus();
  // No checkpoint has this number. If this process is killed here, the file is cleared away like those of unfinished
  // checkpoints.
  const std::string path = fmt::format("{}/{}", dir, PartialName(job, 0));
  const bool is_first = transport->domain() == 0;
  MESHWORK_RETURN_IF_ERROR(
      AllAgree(transport, kFolder, is_first ? WriteFileAtomically(path, job) : absl::OkStatus()));
  absl::Status seen;
  if (!is_first && !ComesToBe(path))
    seen = absl::NotFoundError(fmt::format(
        "{}: process 0 has written into this folder, and it is not seen here; all processes must see one folder.",
        dir));
  seen = AllAgree(transport, kFolder, seen);
  std::error_code ignored;
  if (is_first) std::filesystem::remove(path, ignored);
  return seen;
}

absl::Status AwaitWriters(Transport* transport, const CheckpointWriter& writer) {
  if (transport == nullptr) return absl::OkStatus();
  for (std::chrono::milliseconds between = kFirstLook;; between = std::min(2 * between, kLastLook)) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> writing,
                              transport->AllGather(kToSave, writer.is_writing() ? "writes" : ""));
    if (std::all_of(writing.begin(), writing.end(), [](const std::string& text) { return text.empty(); }))
      return absl::OkStatus();
    std::this_thread::sleep_for(between);
  }
}

absl::Status EndOf(CheckpointWriter& writer) {
  const absl::Status status = writer.Wait();
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
  return absl::DataLossError(std::string(MessageOf(status)));
}

absl::Status SaveState(const DomainState& state, const std::string& dir, const CheckpointNote& note) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string job, NewJob(state.transport, kToSave));
  absl::StatusOr<std::unique_ptr<CheckpointWriter>> writer =
      CheckpointWriter::Open({.dir = dir,
                              .domain = state.domain(),
                              .num_domains = state.num_domains(),
                              .job = job,
                              .keep = std::numeric_limits<int64_t>::max()});
  MESHWORK_RETURN_IF_ERROR(AllAgree(state.transport, kToSave, writer.status()));
  MESHWORK_RETURN_IF_ERROR(CheckSeen(state.transport, dir, job));
  absl::Status status = AllAgree(state.transport, kToSave, (*writer)->Begin(note, state.variables));
  if (status.ok()) status = AwaitWriters(state.transport, **writer);
  if (!status.ok()) {
    (*writer)->Abandon();
    return status;
  }
  return AllAgree(state.transport, kToSave, EndOf(**writer));
}

absl::StatusOr<std::optional<CheckpointNote>> RestoreState(
    const DomainState& state, const std::string& path, const RestoreOptions& options,
    const std::function<void(std::string_view)>& report) {
  return Restoring(state, path, options, report).Run();
}

}  // namespace meshwork
