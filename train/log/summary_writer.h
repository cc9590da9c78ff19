// SummaryWriter logs a training for TensorBoard: numbers, histograms, images, texts, and the program.
//
//   MESHWORK_ASSIGN_OR_RETURN(SummaryWriter log, SummaryWriter::Create("runs/a"));
//   log.Graph(graph).IgnoreError();
//   for (int64_t step = 1; step <= steps; ++step) {
//     …
//     log.Scalar("train/loss", loss, step).IgnoreError();         // a full disk does not end a training
//   }
//   MESHWORK_RETURN_IF_ERROR(log.Close());                        // it is said here at the latest
//
//   $ tensorboard --logdir runs                                   // each folder below it is a run
//
// Writes the file events.out.tfevents.<seconds>.<host>.<process>.<n> in the folder: records (storage/record_file.h) of
// Event messages (tensorflow/core/util/event.proto), as tf.summary and torch.utils.tensorboard do. docs/tensorboard.md
// is the page for users.
//
// Only one process of a job should write; the caller sees to that (Processes::is_chief). Several would show as one
// run whose curves jump back and forth.
//
// Thread safety: any number of threads. Calls encode and return; a thread of the writer's own writes, every
// `flush_seconds`. If the process is killed, what was logged since the last write is missing, and TensorBoard reads
// what is there. The destructor closes. A child of a fork gets FAILED_PRECONDITION of every call.
//
// Errors of the disk are those of the last attempt to write. Each call returns the error, but its summary is kept in
// memory, and the next attempt writes it in its place. Once 64 MiB are waiting, newer summaries are dropped. If the
// file was removed, everything since is lost. Close tells how many summaries are missing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/fork.h"
#include "meshwork/ir/graph.h"
#include "meshwork/runtime/tensor/tensor.h"

namespace meshwork {

struct SummaryOptions {
  double flush_seconds = 10;  // how long a summary may wait in memory; TensorBoard looks every 5 s by default
  int64_t histogram_buckets = 30;
  // Voids what earlier files of the folder say of this step and later ones, for a training that continues from an
  // earlier checkpoint: TensorBoard and ReadSummaries show such a step once, as this writer logs it. The files do not
  // change. Empty: nothing is voided.
  std::optional<int64_t> purge_step = std::nullopt;
  // The time of each summary, in seconds since 1970; the system's if empty. Called from any thread.
  std::function<double()> wall_time = {};
};

class SummaryWriter {
 public:
  // Makes the folder, where it is missing, and in it a file of its own. Errors: the folder or the file cannot be made;
  // flush_seconds is not above 0, or more than a day; histogram_buckets is not 1 to 10000; purge_step is negative.
  // Throws std::system_error if the system refuses a thread.
  static absl::StatusOr<SummaryWriter> Create(const std::string& dir, SummaryOptions options = {});
  SummaryWriter(SummaryWriter&&) noexcept;
  SummaryWriter& operator=(SummaryWriter&&) noexcept;
  ~SummaryWriter();

  const std::string& path() const;  // of the file

  // The functions below have these errors: a tag that is empty, not UTF-8, or of another kind of summary; the writer is
  // closed; those of the disk, see above. A tag's part before its first '/' is its group on the page.

  // The number is stored as f32, which is what TensorBoard reads; it may be infinite or NaN.
  absl::Status Scalar(std::string_view tag, double value, int64_t step);
  // The elements of a tensor of any dtype and shape, counted in buckets of equal width between the smallest and the
  // largest. Elements that are infinite or NaN are left out; if there are any, their number is the scalar
  // "<tag>/not_finite" of the step. Errors, besides: an invalid tensor.
  absl::Status Histogram(std::string_view tag, const Tensor& tensor, int64_t step);
  // images: [h,w], [h,w,c] or [n,h,w,c], levels 0 to 1, see ImagesOf (train/log/images.h). Errors, besides: ImagesOf's.
  absl::Status Image(std::string_view tag, const Tensor& images, int64_t step);
  // Markdown. Errors, besides: it is not UTF-8.
  absl::Status Text(std::string_view tag, std::string_view markdown, int64_t step);
  // The program, global or local, as GraphDefOf (train/log/graph_def.h) draws it. A run has one; TensorBoard shows the
  // last. Errors, besides: graph.status().
  absl::Status Graph(const meshwork::Graph& graph);

  // Writes what waits: other processes can read it then. Errors: those of the disk.
  absl::Status Flush();
  // Flushes and closes the file. Errors: the disk's, and how many summaries are missing; a second call gives the same.
  // All other calls are errors from then on.
  absl::Status Close();

 private:
  struct State;
  explicit SummaryWriter(UnlessForked<State> state);
  absl::Status Check(std::string_view tag, std::string_view kind);
  absl::Status Add(std::string event);

  ForkMark made_;
  UnlessForked<State> state_;
};

}  // namespace meshwork
