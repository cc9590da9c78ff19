// A training step as gpu_step times it: from feeds in the host's memory to the loss in the host's memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/gpu_step/options.h"
#include "benchmarks/gpu_step/works.h"
#include "meshwork.h"
#include "meshwork/base/random.h"

namespace meshwork {

struct Training {
  std::string name;              // "resnet50/64"
  nlohmann::ordered_json about;  // GpuWorkPlan::about
  // "bf16", "f32" or "tf32": the precision of products in layers that compute in f32.
  std::string precision = "f32";
  std::string mesh = "batch=1";
  std::function<void(Graph& graph)> build;          // with the output "loss"
  std::function<Feeds(Random& random)> make_feeds;  // of one step
};

// The training's plan, then, if `prefetches`, the plan of the same training with prefetched batches.
std::vector<GpuWorkPlan> TrainingPlans(const GpuOptions& o, const Training& training, bool prefetches);
// The same; the flag --prefetch decides about prefetching.
std::vector<GpuWorkPlan> TrainingPlans(const GpuOptions& o, const Training& training);

// The dtype in which models with f32 weights compute.
DType ComputeOf(const GpuOptions& o);

SessionOptions OptionsOf(const GpuOptions& o, const std::string& precision);

using Clock = std::chrono::steady_clock;
inline double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Floating-point operations of all products of one step.
double FlopsOfProducts(const Graph& graph);

// f32 in [0,1), and i32 in [0,n).
Tensor RandomReals(Random& random, const Shape& shape);
Tensor RandomNumbers(Random& random, const Shape& shape, int64_t n);

}  // namespace meshwork
