// Tries one op with the compiler and the executor: arguments and results are pinned to placements of its
// letters, and to random placements, also strided ones; the results are compared with the row's kernel on one
// device. Padding is full of NaN. If an axis is free, some operands owe a reduction over it: the compiler may
// pass the reduction on, or has to make it before the op.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/program.h"
#include "meshwork/ir/sample.h"

namespace meshwork {

struct ProgramTrialOptions {
  std::vector<std::string_view> meshes = {"x=2", "x=3", "x=2,y=2"};
  // The sizes that all letters get, after the sample's own: 12 is even on these meshes, 5 is uneven, and with
  // 1 most devices get nothing.
  std::vector<int64_t> sizes = {1, 5, 12};
  int random_placements = 3;  // of each kind, per size and mesh
  int64_t every = 1;          // tries only every `every`-th placement of the letters
  // Returns another mistake of a compiled program, or "".
  std::function<std::string(const Program& program)> inspect = nullptr;
};

// Compiles, proves and runs programs of the sample, and adds a line to `findings` for each that fails or
// gives other values. Returns the number of programs. The sample's row must be known by its name (RegisterOp,
// or TrialRow), because the proof needs it.
int64_t TryPrograms(const Sample& sample, const ProgramTrialOptions& options,
                    std::vector<std::string>& findings);

}  // namespace meshwork
