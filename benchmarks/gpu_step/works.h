// What gpu_step times: training steps, and two steps whose speed a library or the memory bounds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "examples/support/gpt.h"
#include "meshwork.h"

namespace meshwork {

struct GpuOptions {
  std::vector<std::string> works, meshes;  // not empty
  std::vector<int64_t> batches;            // the same
  std::string devices = "cuda", precision = "f32", prefetch = "on", profile = "off", json;
  int64_t size = 8192, elements = int64_t{1} << 26, gpt_batch = 8, repeats = 5;
  double seconds = 0.3;  // of a round
  bool takes_turns = false;
  GptModel gpt{.layers = 12,
               .dim = 768,
               .heads = 12,
               .sequence = 1024,
               .vocabulary = 50304,
               .rotary = false,
               .compute = BF16};
  bool help = false;
  std::string help_text;
};

// What is timed. Steps follow each other; each ends before the next one begins.
struct GpuWork {
  std::string name;  // "mlp/128/batch=8"
  double flops = 0;  // of a step, of its products
  double bytes = 0;  // that a step has to read and write, at least; 0 if that does not bound it
  // What it is compared with: what the same work takes at least, or the work without prefetching. Empty: its kind on the
  // first mesh.
  std::string beside = {};
  // One step; its loss, or 0.
  std::function<absl::StatusOr<double>()> step;
  // Where its time went, if that was asked for.
  std::function<Profile()> profile = nullptr;
};

absl::StatusOr<std::vector<GpuWork>> MakeWorks(const GpuOptions& options);

}  // namespace meshwork
