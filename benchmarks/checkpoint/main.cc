// checkpoint: the cost of writing and reading a checkpoint, compared with the disk and the memory alone. See --help.
//
// Exit code 2: the input is wrong; 1: something failed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>

#include "benchmarks/checkpoint/training.h"
#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/storage/checkpoint.h"
#include "meshwork/storage/checkpoint_writer.h"

namespace meshwork {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr int64_t kVariable = 16;  // MiB of one

struct Options {
  int64_t mebibytes = 256, rounds = 5, turn_seconds = 5;
  std::string dir, json;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "checkpoint",
      "Times a checkpoint by CheckpointWriter beside dd with conv=fsync and a plain write with fsync,\n"
      "the pause of the program that it costs beside memcpy, and reading it beside a plain read, all of\n"
      "the same number of bytes; and the steps per second of trainings that write one every second in the\n"
      "background, beside the same without. All take turns.");
  flags.Int("mebibytes", "of the variables, rounded up to a multiple of 16", &o.mebibytes, 1, 1 << 20);
  flags.Int("rounds", "of each, after one that is not counted", &o.rounds, 1, 1 << 20);
  flags.Int("turn-seconds", "of a training, with checkpoints and without; 0: no training", &o.turn_seconds, 0,
            3600);
  flags.Text("dir", "an existing folder on the disk that is measured; \"\": the one for temporary files",
             &o.dir);
  flags.Text("json", "writes what was measured as JSON into this file; -: to standard output, and no table",
             &o.json);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  if (o.dir.empty()) o.dir = std::filesystem::temp_directory_path().string();
  return o;
}

absl::Status SystemError(const std::string& what) {
  return absl::InternalError(fmt::format("{}: {}.", what, std::generic_category().message(errno)));
}

// ---- The measurements. Each returns its seconds.

// The state of a program: half of the weights are replicated, half are sharded.
absl::StatusOr<std::map<std::string, DTensor>> State(int64_t mebibytes, bool filled) {
  MESHWORK_ASSIGN_OR_RETURN(const Mesh mesh, Mesh::Parse("batch=8"));
  MESHWORK_ASSIGN_OR_RETURN(const Placement placement, Placement::Create(mesh, 1));
  const Type type{F32, {2048, kVariable * kMebibyte / 4 / 2048}};
  std::mt19937 engine(1);
  Tensor values(type);
  for (uint32_t& bits :
       std::span(static_cast<uint32_t*>(values.raw()), static_cast<size_t>(values.num_elements())))
    bits = static_cast<uint32_t>(engine());
  std::map<std::string, DTensor> state;
  for (int64_t i = 0; i < (mebibytes + kVariable - 1) / kVariable; ++i) {
    MESHWORK_ASSIGN_OR_RETURN(const Layout layout, Layout::Parse(mesh, i % 2 == 0 ? "{_,_}" : "{batch,_}"));
    DTensor tensor(Domain(placement, 0), CpuMemory(), type, layout);
    if (filled) MESHWORK_RETURN_IF_ERROR(Pack(values, tensor));
    state.emplace(fmt::format("w{:04}", i), std::move(tensor));
  }
  return state;
}

class Measured {
 public:
  static absl::StatusOr<std::unique_ptr<Measured>> Create(const Options& o) {
    std::unique_ptr<Measured> measured(new Measured);
    measured->dir_ = fmt::format("{}/meshwork-checkpoint-{}", o.dir, getpid());
    MESHWORK_RETURN_IF_ERROR(MakeFolders(measured->dir_));
    MESHWORK_ASSIGN_OR_RETURN(measured->state_, State(o.mebibytes, /*filled=*/true));
    MESHWORK_ASSIGN_OR_RETURN(measured->restored_, State(o.mebibytes, /*filled=*/false));
    measured->bytes_ = std::ssize(measured->state_) * kVariable * kMebibyte;
    measured->from_.assign(static_cast<size_t>(measured->bytes_), 'x');
    measured->to_.assign(static_cast<size_t>(measured->bytes_), 'y');
    MESHWORK_ASSIGN_OR_RETURN(
        measured->writer_,
        CheckpointWriter::Open({.dir = measured->dir_ + "/runs", .job = "job", .keep = 2}));
    return measured;
  }
  ~Measured() {
    writer_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

  int64_t bytes() const { return bytes_; }

  // The first call of a round: the other calls find this checkpoint. The previous round's checkpoint is removed first,
  // outside of the timed part, as the other calls do with their files.
  absl::StatusOr<double> Pause() {
    absl::Status status;
    if (step_ > 0) status = RemoveCheckpoint(fmt::format("{}/runs/{}", dir_, CheckpointName(step_)));
    MESHWORK_RETURN_IF_ERROR(status);
    sync();
    const double seconds = Seconds([&] { status = writer_->Begin({.step = ++step_}, state_); });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  }
  absl::StatusOr<double> Write() {
    absl::Status status;
    const double seconds = Seconds([&] { status = writer_->Wait(); });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  }
  absl::StatusOr<double> Dd() {
    const std::string file = dir_ + "/dd";
    const std::string command = fmt::format("dd if=/dev/zero of='{}' bs=1M count={} conv=fsync status=none",
                                            file, bytes_ / kMebibyte);
    sync();
    int code = 0;
    const double seconds = Seconds([&] { code = std::system(command.c_str()); });
    std::filesystem::remove(file);
    if (code != 0) return absl::InternalError(fmt::format("{}: failed.", command));
    return seconds;
  }
  absl::StatusOr<double> PlainWrite() {
    const std::string file = dir_ + "/plain";
    sync();
    bool is_written = true;
    const double seconds = Seconds([&] {
      const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
      for (int64_t at = 0; is_written && at < bytes_; at += kMebibyte)
        is_written = write(fd, from_.data() + at, static_cast<size_t>(kMebibyte)) == kMebibyte;
      is_written = is_written && fsync(fd) == 0 && close(fd) == 0;
    });
    if (!is_written) return SystemError(file);
    std::filesystem::remove(file);
    return seconds;
  }
  absl::StatusOr<double> Memcpy() {
    return Seconds([&] { std::memcpy(to_.data(), from_.data(), from_.size()); });
  }
  absl::StatusOr<double> Restore() {
    absl::Status status;
    const double seconds = Seconds([&] {
      const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(dir_ + "/runs");
      status = checkpoint.ok() ? checkpoint->RestoreInto(restored_) : checkpoint.status();
    });
    MESHWORK_RETURN_IF_ERROR(status);
    return seconds;
  }
  absl::StatusOr<double> PlainRead() {
    const std::string file = fmt::format("{}/runs/{}/{}", dir_, CheckpointName(step_), ShardName(0, 1));
    bool is_read = true;
    const double seconds = Seconds([&] {
      const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
      for (int64_t at = 0; is_read && at < bytes_; at += kMebibyte)
        is_read = pread(fd, to_.data() + at, static_cast<size_t>(kMebibyte), at) == kMebibyte;
      close(fd);
    });
    if (!is_read) return SystemError(file);
    return seconds;
  }

 private:
  Measured() = default;

  std::string dir_;
  int64_t bytes_ = 0, step_ = 0;
  std::map<std::string, DTensor> state_, restored_;
  std::string from_, to_;
  std::unique_ptr<CheckpointWriter> writer_;
};

// ---- The report.

struct Row {
  std::string name;
  std::function<absl::StatusOr<double>()> measure;
  std::string beside;  // another row, which this one is compared with
  std::vector<double> seconds = {};
};

absl::Status Run(const Options& o) {
  MESHWORK_ASSIGN_OR_RETURN(const std::unique_ptr<Measured> measured, Measured::Create(o));
  std::vector<Row> rows = {{"pause of Begin", [&] { return measured->Pause(); }, "memcpy"},
                           {"write", [&] { return measured->Write(); }, "dd"},
                           {"dd", [&] { return measured->Dd(); }, ""},
                           {"plain write", [&] { return measured->PlainWrite(); }, "dd"},
                           {"memcpy", [&] { return measured->Memcpy(); }, ""},
                           {"restore", [&] { return measured->Restore(); }, "plain read"},
                           {"plain read", [&] { return measured->PlainRead(); }, ""}};
  for (int64_t round = 0; round <= o.rounds; ++round) {
    for (Row& row : rows) {
      MESHWORK_ASSIGN_OR_RETURN(const double seconds, row.measure());
      if (round > 0) row.seconds.push_back(seconds);
    }
  }
  nlohmann::ordered_json json = {{"bytes", measured->bytes()}};
  const bool has_table = o.json != "-";
  if (has_table)
    fmt::print("{:<16} {:>10} {:>10}  {}\n", fmt::format("{} MiB", measured->bytes() / kMebibyte), "ms",
               "MB/s", "speed beside");
  for (const Row& row : rows) {
    const double seconds = Median(row.seconds), rate = static_cast<double>(measured->bytes()) / seconds / 1e6;
    json[row.name] = {{"ms", 1e3 * seconds}, {"mb_per_s", rate}};
    std::string ratio_text;
    for (const Row& other : rows) {
      if (other.name != row.beside) continue;
      std::vector<double> ratios;
      for (size_t r = 0; r < row.seconds.size(); ++r) ratios.push_back(other.seconds[r] / row.seconds[r]);
      const double ratio = Median(ratios);
      json[row.name]["ratio"] = ratio;
      ratio_text = fmt::format("{:.2f} of {}", ratio, other.name);
    }
    if (has_table) fmt::print("{:<16} {:>10.1f} {:>10.0f}  {}\n", row.name, 1e3 * seconds, rate, ratio_text);
  }
  if (o.turn_seconds > 0) {
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<TrainingCost> costs,
                              MeasureTraining({.dir = fmt::format("{}/meshwork-training-{}", o.dir, getpid()),
                                               .seconds = static_cast<double>(o.turn_seconds),
                                               .rounds = o.rounds}));
    if (has_table)
      fmt::print("\n{:<16} {:>10} {:>10}  {}\n", "training", "MB", "steps/s",
                 "with a checkpoint every second");
    for (const TrainingCost& cost : costs) {
      json["training"].push_back({{"model", cost.name},
                                  {"megabytes", cost.megabytes},
                                  {"steps_per_s", cost.plain},
                                  {"ratio", cost.throughput},
                                  {"checkpoints", cost.checkpoints}});
      if (has_table)
        fmt::print("{:<16} {:>10.1f} {:>10.2f}  {:.3f} of these ({} checkpoints)\n", cost.name,
                   cost.megabytes, cost.plain, cost.throughput, cost.checkpoints);
    }
  }
  if (o.json.empty()) return absl::OkStatus();
  if (has_table) return WriteFileAtomically(o.json, json.dump(2) + "\n");
  fmt::print("{}\n", json.dump(2));
  return absl::OkStatus();
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("checkpoint", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
