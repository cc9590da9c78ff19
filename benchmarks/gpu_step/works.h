// The works of gpu_step: training steps, and two steps whose speed a library or the memory bounds.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/gpu_step/options.h"
#include "meshwork.h"

namespace meshwork {

// A work to time. Steps follow each other; each ends before the next one begins.
struct GpuWork {
  double flops = 0;  // of the products of a step
  double bytes = 0;  // that a step reads and writes at least; 0 if memory does not bound it
  // Seconds to build, compile and initialize the program, before the first step. Making the data is not included. 0 for
  // a step that is not a program.
  double setup_seconds = 0;
  // Runs one step; returns its loss, or 0.
  std::function<absl::StatusOr<double>()> step;
  // The profile of the steps, if a flag asked for it.
  std::function<Profile()> profile = nullptr;
};

// A work that has not been made yet.
struct GpuWorkPlan {
  std::string name;  // "mlp/128/batch=8"
  // The model, its sizes and how it is trained, for peers with the same model: {"model": "mlp", "batch": 128}. Empty if
  // no peer has it.
  nlohmann::ordered_json about = {};
  // The name of the work to compare with: a lower bound of the same work, or the work without prefetching. Empty: the
  // first work of the same model.
  std::string beside = {};
  std::function<absl::StatusOr<GpuWork>()> make;
};

// The names for --works: "matmul, chain, …".
std::string WorkNames();

// The works that --works names; none is made yet. Error: there is no such work.
absl::StatusOr<std::vector<GpuWorkPlan>> PlanWorks(const GpuOptions& options);

}  // namespace meshwork
