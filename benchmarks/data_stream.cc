// data_stream: a Pipeline that makes its examples while a consumer computes. See --help.
//
// Exit code 2: the input is wrong; 1: something failed.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "benchmarks/machine.h"
#include "benchmarks/main_of.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/flags.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/random.h"
#include "meshwork/base/status.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {
namespace {

struct Options {
  int64_t bytes = int64_t{64} << 20, batch = 128, dim = 784, threads = 2, prefetch = 2, shuffle = 1024;
  double step_ms = 3;
  std::string json;
  bool help = false;
  std::string help_text;
};

absl::StatusOr<Options> ParseOptions(int argc, const char* const* argv) {
  Options o;
  FlagTable flags(
      "data_stream",
      "Streams examples that are made on the fly, by random numbers, through Shuffle, Map, Batch and\n"
      "Prefetch, to a consumer that computes for some time per batch. Prints how long it waited for\n"
      "its batches, and the memory of the process at a tenth of the stream and at its end.");
  flags.Bytes("bytes", "of the stream, rounded up to whole batches", &o.bytes);
  flags.Int("batch", "examples of a batch", &o.batch, 1, 1 << 20);
  flags.Int("dim", "f32 values of an example", &o.dim, 1, 1 << 24);
  flags.Int("threads", "of Map; 0: the consumer's", &o.threads, 0, 1024);
  flags.Int("prefetch", "batches that are made ahead; 0: none", &o.prefetch, 0, 1 << 20);
  flags.Int("shuffle", "indices in the buffer of Shuffle", &o.shuffle, 1, 1 << 30);
  flags.Real("step-ms", "that the consumer computes with a batch", &o.step_ms, /*above=*/0);
  flags.Text("json", "writes what was measured as JSON into this file", &o.json);
  MESHWORK_RETURN_IF_ERROR(flags.Parse(argc, argv));
  o.help = flags.help_asked();
  o.help_text = flags.Help();
  return o;
}

// An example of index i: uniform values, scaled to have mean 0 and variance 1.
Example Made(int64_t i, int64_t dim) {
  Random random(/*seed=*/1, static_cast<uint64_t>(i));
  Tensor x(Type{F32, {dim}});
  for (float& value : x.mutable_values<float>())
    value = static_cast<float>((random.Uniform() - 0.5) * 3.4641016151377544);
  return Example{{"x", std::move(x)}, {"y", Tensor::From<int32_t>({}, {static_cast<int32_t>(i % 10)})}};
}

// Reads the batch repeatedly, for so many seconds.
double Compute(const Example& batch, double seconds) {
  const double start = SteadySeconds();
  double sum = 0;
  do
    for (const float value : batch["x"].values<float>()) sum += value;
  while (SteadySeconds() - start < seconds);
  return sum;
}

absl::Status Run(const Options& o) {
  const int64_t batch_bytes = o.batch * (o.dim * int64_t{sizeof(float)} + int64_t{sizeof(int32_t)});
  const int64_t steps = std::max<int64_t>((o.bytes + batch_bytes - 1) / batch_bytes, 1);
  Pipeline stream =
      Pipeline::Range()
          .Shuffle(o.shuffle, /*seed=*/1)
          .Map([dim = o.dim](const Example& e) { return Made(e["index"].values<int64_t>()[0], dim); },
               {.threads = static_cast<int>(o.threads)})
          .Batch(o.batch)
          .Take(steps);
  if (o.prefetch > 0) stream = stream.Prefetch(o.prefetch);

  PipelineIterator walk = stream.Begin();
  const double start = SteadySeconds();
  double sum = 0, first_wait = 0, tenth_mb = 0;
  int64_t step = 0;
  for (const Example& batch : walk) {
    if (step == 0) first_wait = walk.stats().last_seconds;
    sum += Compute(batch, o.step_ms / 1e3);
    if (++step == (steps + 9) / 10) tenth_mb = MegabytesOf("VmHWM");
  }
  const double seconds = SteadySeconds() - start, peak_mb = MegabytesOf("VmHWM");
  // The wait for the first batch is the start of the pipeline.
  const PipelineStats& stats = walk.stats();
  const double waited = stats.seconds - first_wait;
  const auto n = static_cast<double>(steps);
  fmt::print(
      "{} steps of {} examples, {:.3f} GB in {:.1f} s: {:.0f} MB/s\n"
      "waited {:.4f} ms per step, {:.2f} % of the time; {} steps longer than {:.1f} ms; for the first batch {:.2f} ms\n"
      "peak memory {:.1f} MB at a tenth of the stream, {:.1f} MB at its end\n",
      steps, o.batch, n * static_cast<double>(batch_bytes) / 1e9, seconds,
      n * static_cast<double>(batch_bytes) / seconds / 1e6, 1e3 * waited / n, 100 * waited / seconds,
      stats.waits, 1e3 * PipelineStats::kLongWait, 1e3 * first_wait, tenth_mb, peak_mb);
  if (o.json.empty()) return absl::OkStatus();
  const nlohmann::ordered_json json = {{"cpu", CpuName()},
                                       {"steps", steps},
                                       {"bytes", steps * batch_bytes},
                                       {"seconds", seconds},
                                       {"waited_ms_per_step", 1e3 * waited / n},
                                       {"first_wait_ms", 1e3 * first_wait},
                                       {"long_waits", stats.waits},
                                       {"tenth_mb", tenth_mb},
                                       {"peak_mb", peak_mb},
                                       {"sum", sum}};
  return WriteFileAtomically(o.json, json.dump(2) + "\n");
}

}  // namespace
}  // namespace meshwork

int main(int argc, char** argv) {
  return meshwork::MainOf("data_stream", meshwork::ParseOptions(argc, argv), meshwork::Run);
}
