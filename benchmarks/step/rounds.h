// Variants of the step, measured in turns.
//
// A round is several steps of one variant in a row, as in training: its own weights are then in the caches,
// and the threads of the other variants sleep. Every repeat runs a round of each variant, in alternating
// order. If the machine is busy for a while, it is busy for all variants of a repeat, so their ratios hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmarks/step/floors.h"
#include "benchmarks/step/options.h"

namespace meshwork {

struct VariantResult {
  std::string variant;
  double ms = 0;      // median over the rounds of the median of a round's steps
  double min_ms = 0;  // the fastest step
  // Relative to the first variant, which has 1: the median of the ratios of two rounds of one repeat, and the
  // ratio of the fastest steps. Nothing if the first variant did not run.
  std::optional<double> ratio, min_ratio;
  std::optional<double> distance;  // of the weights from those of the first after some steps
  std::optional<double> peak_mb;   // memory of a process that runs this variant alone
};

struct BatchResult {
  int64_t batch = 0, steps = 0;
  std::optional<Floors> floors;  // not with a single variant, because they take memory, too
  std::vector<VariantResult> variants;
  double idle_cores = 0;  // busy between rounds, when all threads should sleep

  const VariantResult* Find(std::string_view variant) const;
};

// Errors: those of MakeTrainee and of the steps; weights that differ from those of the first variant.
absl::StatusOr<BatchResult> RunRounds(const StepOptions& options, int64_t batch, int workers);

}  // namespace meshwork
