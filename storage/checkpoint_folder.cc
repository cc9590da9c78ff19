#include "meshwork/storage/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr std::string_view kStepPrefix = "step-", kPartialPrefix = "partial-", kRemovedPrefix = "removed-",
                           kReplacedPrefix = "replaced-";
constexpr int64_t kMostIndexBytes = int64_t{256} << 20;

absl::Status FolderError(const std::string& path, std::string_view what, int error) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      fmt::format("{}: {}: {}.", path.empty() ? "\"\"" : path, what, std::generic_category().message(error)));
}

// The whole number that `text` is; -1 if it is none.
int64_t NumberOf(std::string_view text) {
  int64_t number = -1;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && last == text.data() + text.size() && number >= 0 ? number : -1;
}

// The number behind a prefix; -1 if the name is another one.
int64_t NumberAfter(std::string_view prefix, std::string_view name) {
  return name.starts_with(prefix) ? NumberOf(name.substr(prefix.size())) : -1;
}

bool IsReplaced(std::string_view name) { return name.starts_with(kReplacedPrefix); }

// The step of a checkpoint's folder; -1 if the name is another one.
int64_t StepOf(std::string_view name) {
  return NumberAfter(kStepPrefix, IsReplaced(name) ? name.substr(kReplacedPrefix.size()) : name);
}

std::string HostAndProcess() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on {}", getpid(), host);
}

std::string LockOf(const std::string& dir) { return dir + "/lock"; }

}  // namespace

absl::StatusOr<std::vector<std::string>> NamesInFolder(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  do {
    names.clear();
    for (std::filesystem::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
  } while (error == std::errc::interrupted);
  if (error) return FolderError(dir, "cannot be read", error.value());
  return names;
}

std::string CheckpointName(int64_t step) { return fmt::format("{}{:012}", kStepPrefix, step); }

std::string PartialName(const std::string& job, int64_t number) {
  return fmt::format("{}{}-{}", kPartialPrefix, job, number);
}

std::string ShardName(int64_t shard, int64_t num_shards) {
  return fmt::format("shard-{:05}-of-{:05}.safetensors", shard, num_shards);
}

absl::StatusOr<CheckpointIndex> ReadCheckpointIndex(const std::string& path) {
  const std::string file = path + "/index.json";
  MESHWORK_ASSIGN_OR_RETURN(const InputFile index_file, InputFile::Open(file));
  if (index_file.size() > kMostIndexBytes)
    return InvalidArgument("{}: has {}; an index has at most {}.", file, Count(index_file.size(), "byte"),
                           kMostIndexBytes);
  std::string text(static_cast<size_t>(index_file.size()), '\0');
  MESHWORK_RETURN_IF_ERROR(index_file.ReadAt(0, std::as_writable_bytes(std::span(text))));
  MESHWORK_ASSIGN_OR_RETURN(CheckpointIndex index, CheckpointIndexFromJson(text, file));
  for (const CheckpointShard& shard : index.shards) {
    const std::string shard_path = fmt::format("{}/{}", path, shard.file);
    MESHWORK_ASSIGN_OR_RETURN(const InputFile opened, InputFile::Open(shard_path));
    if (opened.size() != shard.bytes)
      return InvalidArgument("{}: has {} and not the {} that the index says; the checkpoint is damaged.",
                             shard_path, Count(opened.size(), "byte"), shard.bytes);
  }
  return index;
}

absl::StatusOr<std::vector<FoundCheckpoint>> ListCheckpoints(const std::string& dir) {
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesInFolder(dir));
  std::vector<FoundCheckpoint> found;
  for (const std::string& name : names) {
    const int64_t step = StepOf(name);
    if (step < 0) continue;
    const std::string path = fmt::format("{}/{}", dir, name);
    found.push_back({path, step, ReadCheckpointIndex(path)});
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return std::tie(b.step, b.path) < std::tie(a.step, a.path); });
  return found;
}

int64_t NewestStep(const std::string& dir) {
  int64_t newest = -1;
  if (const absl::StatusOr<std::vector<FoundCheckpoint>> found = ListCheckpoints(dir); found.ok())
    for (const FoundCheckpoint& checkpoint : *found)
      if (checkpoint.index.ok()) newest = std::max(newest, checkpoint.step);
  return newest;
}

std::vector<std::string> UnfinishedIn(const std::string& dir) {
  std::vector<std::string> names = NamesInFolder(dir).value_or(std::vector<std::string>());
  std::erase_if(names, [](const std::string& name) { return !name.starts_with(kPartialPrefix); });
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status NoCheckpoint(const std::string& path) {
  return absl::NotFoundError(fmt::format(
      "{}: there is no checkpoint; name the folder that was given to Save, or to a training.", path));
}

absl::StatusOr<std::string> FindCheckpoint(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error))
    return InvalidArgument(
        "{}: is a file, and a checkpoint is a folder; of a safetensors file \"meshwork checkpoint convert\" makes one, and "
        "ReadSafetensors gives tensors for Session::Set.",
        path);
  const std::string index = path + "/index.json";
  if (std::filesystem::exists(index, error)) return path;
  if (error) return FolderError(index, "cannot be read", error.value());
  MESHWORK_ASSIGN_OR_RETURN(const std::vector<FoundCheckpoint> found, ListCheckpoints(path));
  for (const FoundCheckpoint& checkpoint : found)
    if (checkpoint.index.ok()) return checkpoint.path;
  if (found.empty()) return NoCheckpoint(path);
  return Annotate(found[0].index.status(), fmt::format("{}: none of {} can be used; the newest: ", path,
                                                       Count(std::ssize(found), "checkpoint")));
}

absl::Status PublishCheckpoint(const std::string& partial, const std::string& dir, int64_t step) {
  const std::string name = CheckpointName(step), path = fmt::format("{}/{}", dir, name);
  absl::Status status = RenameFolder(partial, path);
  if (status.code() != absl::StatusCode::kAlreadyExists) return status;
  std::error_code ignored;
  status = ExchangeFolders(partial, path);
  if (status.code() != absl::StatusCode::kUnimplemented) {
    if (status.ok()) std::filesystem::remove_all(partial, ignored);  // the older one
    return status;
  }
  const std::string replaced = fmt::format("{}/{}{}", dir, kReplacedPrefix, name);
  RemoveCheckpoint(replaced).IgnoreError();  // left by an earlier replacement
  MESHWORK_RETURN_IF_ERROR(RenameFolder(path, replaced));
  status = RenameFolder(partial, path);
  (status.ok() ? RemoveCheckpoint(replaced) : RenameFolder(replaced, path)).IgnoreError();
  return status;
}

absl::Status RemoveCheckpoint(const std::string& path) {
  // The name is new: folders that could not be removed before still have theirs.
  static std::atomic<int64_t> count = 0;
  const std::filesystem::path whole(path);
  const std::string removed =
      (whole.parent_path() /
       fmt::format("{}{}-{}-{}", kRemovedPrefix, whole.filename().string(), getpid(), count++))
          .string();
  MESHWORK_RETURN_IF_ERROR(RenameFolder(path, removed));
  std::error_code error;
  std::filesystem::remove_all(removed, error);
  return error ? FolderError(path, "its files cannot be removed", error.value()) : absl::OkStatus();
}

void RemoveLeftovers(const std::string& dir, const std::string& job, int64_t first) {
  const absl::StatusOr<std::vector<std::string>> names = NamesInFolder(dir);
  if (!names.ok()) return;
  const std::string own_prefix = fmt::format("{}{}-", kPartialPrefix, job);
  for (const std::string& name : *names) {
    const std::string path = fmt::format("{}/{}", dir, name);
    if (IsReplaced(name) && StepOf(name) >= 0) {
      // Fails if there is a checkpoint of the step.
      const absl::Status back =
          RenameFolder(path, fmt::format("{}/{}", dir, name.substr(kReplacedPrefix.size())));
      if (back.code() == absl::StatusCode::kAlreadyExists) RemoveCheckpoint(path).IgnoreError();
      continue;
    }
    if (name.starts_with(kPartialPrefix)) {
      if (NumberAfter(own_prefix, name) >= first) continue;
    } else if (!name.starts_with(kRemovedPrefix)) {
      continue;
    }
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
}

std::string CheckpointLock::HolderOf(const std::string& dir) { return ReadFile(LockOf(dir)).value_or(""); }

void CheckpointLock::TakeAway(const std::string& dir) {
  std::error_code ignored;
  std::filesystem::remove(LockOf(dir), ignored);
}

absl::StatusOr<CheckpointLock> CheckpointLock::Take(const std::string& dir) {
  MESHWORK_RETURN_IF_ERROR(MakeFolders(dir));
  const std::string path = LockOf(dir);
  const auto cannot = [&](int error) {
    return absl::Status(
        absl::ErrnoToStatusCode(error),
        fmt::format("{}: cannot be locked: {}; the folder must be writable, on a file system with flock.",
                    path, std::generic_category().message(error)));
  };
  int fd;
  do fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) return cannot(errno);
  CheckpointLock lock(path, fd);
  int error = 0;
  do error = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  while (error == EINTR);
  if (error == EWOULDBLOCK) {
    const std::string holder = HolderOf(dir);
    return absl::AlreadyExistsError(
        fmt::format("{}: another job writes its checkpoints there: {}. Give each job a folder of its own.",
                    dir, holder.empty() ? "it has not said which" : holder));
  }
  if (error != 0) return cannot(error);
  if (!lock.IsHeld()) return cannot(ENOENT);  // it was removed meanwhile
  // Only informs people: the lock is held even if this fails, as on a full disk.
  const std::string self = HostAndProcess();
  [[maybe_unused]] const bool is_said =
      ftruncate(fd, 0) == 0 && pwrite(fd, self.data(), self.size(), 0) == std::ssize(self);
  return lock;
}

bool CheckpointLock::IsHeld() const {
  struct stat named, locked;
  if (stat(path_.c_str(), &named) != 0) return errno != ENOENT && errno != ENOTDIR;
  return fstat(fd_.get(), &locked) != 0 || (named.st_dev == locked.st_dev && named.st_ino == locked.st_ino);
}

}  // namespace meshwork
