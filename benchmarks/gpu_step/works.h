// What gpu_step times: training steps, and two steps whose speed a library or the memory bounds.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/gpu_step/options.h"
#include "meshwork.h"

namespace meshwork {

// What is timed. Steps follow each other; each ends before the next one begins.
struct GpuWork {
  double flops = 0;  // of a step, of its products
  double bytes = 0;  // that a step has to read and write, at least; 0 if that does not bound it
  // To build, compile and initialize the program, until the first step can begin; the data are made before that. 0 of a
  // step that is no program.
  double setup_seconds = 0;
  // One step; its loss, or 0.
  std::function<absl::StatusOr<double>()> step;
  // Where its time went, if that was asked for.
  std::function<Profile()> profile = nullptr;
};

// A work that can be made.
struct GpuWorkPlan {
  std::string name;  // "mlp/128/batch=8"
  // The model, its sizes and how it is trained, for the peers that do the same: {"model": "mlp", "batch": 128}. Empty if no
  // peer does it.
  nlohmann::ordered_json about = {};
  // What it is compared with: what the same work takes at least, or the work without prefetching. Empty: its kind on the
  // first mesh.
  std::string beside = {};
  std::function<absl::StatusOr<GpuWork>()> make;
};

// What --works may name: "matmul, chain, …".
std::string WorkNames();

// The works that --works names, none of which has been made. Error: there is no such work.
absl::StatusOr<std::vector<GpuWorkPlan>> PlanWorks(const GpuOptions& options);

}  // namespace meshwork
