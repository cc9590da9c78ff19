// The output of the programs of this folder that call Fit.
#pragma once

#include "examples/models/flags.h"

namespace meshwork {

// A callback of Fit: "step 3: loss 0.25".
inline CallbackPtr PrintLosses(const ModelFlags& flags) {
  return Lambdas({.on_step_end = [digits = flags.digits](FitState& state) {
    fmt::print("step {}: loss {:.{}g}\n", state.steps(), state.last().at("loss"), digits);
    return absl::OkStatus();
  }});
}

}  // namespace meshwork
