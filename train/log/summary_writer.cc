#include "meshwork/train/log/summary_writer.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "meshwork/base/exceptions.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/base/utf8.h"
#include "meshwork/storage/record_file.h"
#include "meshwork/train/log/graph_def.h"
#include "meshwork/train/log/images.h"
#include "meshwork/train/log/summary_events.h"

namespace meshwork {
namespace {

constexpr int64_t kWrittenEarly = int64_t{1} << 20;  // bytes: so many do not wait for flush_seconds
constexpr int64_t kMostWaiting = int64_t{64} << 20;  // bytes
constexpr int64_t kMostBuckets = 10'000;
constexpr double kLongestFlush = 86400;  // a day

double SystemTime() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard takes files whose name holds "tfevents", in the order of their names.
absl::StatusOr<RecordWriter> CreateFile(const std::string& dir, double time) {
  static std::atomic<int64_t> count = 0;
  std::array<char, 256> host = {};
  if (gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {'h', 'o', 's', 't'};
  while (true) {
    absl::StatusOr<RecordWriter> file =
        RecordWriter::Create(fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", dir,
                                         static_cast<int64_t>(time), host.data(), getpid(), count++));
    if (!absl::IsAlreadyExists(file.status())) return file;
  }
}

absl::Status CheckOptions(const SummaryOptions& options) {
  if (!(options.flush_seconds > 0) || options.flush_seconds > kLongestFlush)
    return InvalidArgument("SummaryWriter: flush_seconds is {}; it must be above 0 and at most {}, as 10.",
                           options.flush_seconds, kLongestFlush);
  if (options.histogram_buckets < 1 || options.histogram_buckets > kMostBuckets)
    return InvalidArgument("SummaryWriter: histogram_buckets is {}; it must be 1 to {}.",
                           options.histogram_buckets, kMostBuckets);
  if (options.purge_step.value_or(0) < 0)
    return InvalidArgument("SummaryWriter: purge_step is {}; it must be a step, or empty.",
                           *options.purge_step);
  return absl::OkStatus();
}

}  // namespace

// The state that the writing thread shares with the threads that log.
struct SummaryWriter::State {
  State(RecordWriter opened, SummaryOptions o)
      : path(opened.path()),
        options(std::move(o)),
        file(std::move(opened)),
        writer([this] { WriteUntilClosed(); }) {}
  ~State() { Close().IgnoreError(); }

  double Now() const { return options.wall_time ? options.wall_time() : SystemTime(); }

  absl::Status Add(std::string event) {
    std::unique_lock lock(mutex);
    // If the disk is only slow, threads that log more than it takes wait for it.
    done.wait(lock, [&] { return closes || queued_bytes < kMostWaiting; });
    if (closes)
      return absl::FailedPreconditionError(
          fmt::format("{}: the SummaryWriter is closed; nothing can be logged any more.", path));
    queued_bytes += static_cast<int64_t>(event.size());
    queue.push_back(std::move(event));
    if (queued_bytes >= kWrittenEarly) work.notify_one();
    return status;
  }

  absl::Status Flush() {
    std::unique_lock lock(mutex);
    const int64_t mine = ++flushes_asked;
    work.notify_one();
    done.wait(lock, [&] { return flushes_made >= mine || is_closed; });
    return status;
  }

  absl::Status Close() {
    std::unique_lock lock(mutex);
    closes = true;
    work.notify_one();
    done.notify_all();
    done.wait(lock, [&] { return is_closed; });
    return status;
  }

  // The body of `writer`.
  void WriteUntilClosed() {
    std::unique_lock lock(mutex);
    while (!is_closed) {
      work.wait_for(lock, std::chrono::duration<double>(options.flush_seconds), [&] {
        return closes || flushes_asked > flushes_made ||
               queued_bytes >= (status.ok() ? kWrittenEarly : kMostWaiting);
      });
      const std::vector<std::string> events = std::exchange(queue, {});
      queued_bytes = 0;
      const int64_t flushes = flushes_asked;
      const bool is_last = closes;
      lock.unlock();
      absl::Status outcome = Write(events, is_last);
      lock.lock();
      status = std::move(outcome);
      flushes_made = flushes;
      is_closed = is_last;
      done.notify_all();
    }
  }

  // Only `writer` calls it.
  absl::Status Write(const std::vector<std::string>& events, bool is_last) {
    absl::Status outcome;
    const auto settle = [&](absl::Status result) {
      outcome = std::move(result);
      if (!outcome.ok() && (absl::IsNotFound(outcome) || is_last)) missing += waiting;
      if (outcome.ok() || absl::IsNotFound(outcome) || is_last) waiting = 0;
    };
    try {
      for (const std::string& event : events) {
        const bool is_full = file.pending_bytes() + std::ssize(event) > kMostWaiting;
        if (is_full && outcome.ok()) settle(file.Write());
        if (is_full && !outcome.ok()) {
          ++missing;
          continue;
        }
        file.Append(event);
        ++waiting;
      }
      settle(is_last ? file.Close() : file.Write());
    } catch (...) {
      settle(CaughtStatus(path, "there is not enough memory for the summaries"));
    }
    if (!is_last || missing == 0) return outcome;
    const std::string count = Count(missing, "event");
    if (outcome.ok())
      return absl::DataLossError(
          fmt::format("{}: the file lacks {}, logged while the disk failed and {} MiB waited already.", path,
                      count, kMostWaiting >> 20));
    return absl::Status(outcome.code(), fmt::format("{} The file lacks {}.", MessageOf(outcome), count));
  }

  const std::string path;
  const SummaryOptions options;
  std::mutex mutex;  // of what follows
  std::condition_variable work, done;
  std::vector<std::string> queue;  // events, in order
  int64_t queued_bytes = 0;
  int64_t flushes_asked = 0, flushes_made = 0;
  bool closes = false, is_closed = false;
  absl::Status status;                                         // of the last attempt to write
  std::map<std::string, std::string_view, std::less<>> kinds;  // of summary, by tag
  // Used by the writing thread alone.
  RecordWriter file;
  int64_t waiting = 0, missing = 0;  // events in the file's memory, and lost ones
  std::jthread writer;               // starts last, ends first
};

SummaryWriter::SummaryWriter(UnlessForked<State> state) : state_(std::move(state)) {}
SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&&) noexcept = default;
SummaryWriter::~SummaryWriter() = default;

absl::StatusOr<SummaryWriter> SummaryWriter::Create(const std::string& dir, SummaryOptions options) {
  MESHWORK_RETURN_IF_ERROR(CheckOptions(options));
  MESHWORK_RETURN_IF_ERROR(MakeFolders(dir));
  const double now = options.wall_time ? options.wall_time() : SystemTime();
  MESHWORK_ASSIGN_OR_RETURN(RecordWriter file, CreateFile(dir, now));
  // The kind of the file stands in it before anything is logged, so that a reader never finds it empty.
  file.Append(VersionEvent(now));
  if (options.purge_step.has_value()) file.Append(RestartEvent({now, *options.purge_step}));
  MESHWORK_RETURN_IF_ERROR(file.Write());
  return SummaryWriter(UnlessForked<State>(new State(std::move(file), std::move(options))));
}

const std::string& SummaryWriter::path() const { return state_->path; }

absl::Status SummaryWriter::Check(std::string_view tag, std::string_view kind) {
  MESHWORK_RETURN_IF_ERROR(made_.Check("SummaryWriter"));
  if (tag.empty())
    return InvalidArgument("SummaryWriter: the tag of {} is empty; give it a name, as train/loss.", kind);
  if (!IsUtf8(tag))
    return InvalidArgument("SummaryWriter: the tag of {} is not UTF-8; the format allows no other.", kind);
  const std::lock_guard lock(state_->mutex);
  const auto [known, is_new] = state_->kinds.emplace(tag, kind);
  if (!is_new && known->second != kind)
    return InvalidArgument(
        "SummaryWriter: the tag \"{}\" is of {} and of {}; TensorBoard would show only the first.", tag,
        known->second, kind);
  return absl::OkStatus();
}

absl::Status SummaryWriter::Add(std::string event) { return state_->Add(std::move(event)); }

absl::Status SummaryWriter::Scalar(std::string_view tag, double value, int64_t step) {
  MESHWORK_RETURN_IF_ERROR(Check(tag, "a scalar"));
  return Add(ScalarEvent({state_->Now(), step}, tag, value));
}

absl::Status SummaryWriter::Histogram(std::string_view tag, const Tensor& tensor, int64_t step) {
  if (absl::Status valid = tensor.status(); !valid.ok())
    return Annotate(valid, fmt::format("Histogram \"{}\": ", tag));
  MESHWORK_RETURN_IF_ERROR(Check(tag, "a histogram"));
  return Add(
      HistogramEvent({state_->Now(), step}, tag, BucketsOf(tensor, state_->options.histogram_buckets)));
}

absl::Status SummaryWriter::Image(std::string_view tag, const Tensor& images, int64_t step) {
  absl::StatusOr<std::vector<meshwork::Image>> pixels = ImagesOf(images);
  if (!pixels.ok()) return Annotate(pixels.status(), fmt::format("Image \"{}\": ", tag));
  MESHWORK_RETURN_IF_ERROR(Check(tag, "an image"));
  return Add(ImageEvent({state_->Now(), step}, tag, *pixels));
}

absl::Status SummaryWriter::Text(std::string_view tag, std::string_view markdown, int64_t step) {
  if (!IsUtf8(markdown))
    return InvalidArgument("Text \"{}\": the text is not UTF-8; the format allows no other.", tag);
  MESHWORK_RETURN_IF_ERROR(Check(tag, "a text"));
  return Add(TextEvent({state_->Now(), step}, tag, markdown));
}

absl::Status SummaryWriter::Graph(const meshwork::Graph& graph) {
  MESHWORK_RETURN_IF_ERROR(made_.Check("SummaryWriter"));
  MESHWORK_RETURN_IF_ERROR(graph.status());
  return Add(GraphEvent(state_->Now(), GraphDefOf(graph)));
}

absl::Status SummaryWriter::Flush() {
  MESHWORK_RETURN_IF_ERROR(made_.Check("SummaryWriter"));
  return state_->Flush();
}

absl::Status SummaryWriter::Close() {
  MESHWORK_RETURN_IF_ERROR(made_.Check("SummaryWriter"));
  return state_->Close();
}

}  // namespace meshwork
