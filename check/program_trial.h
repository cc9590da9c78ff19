// What the compiler and the executor make of one op: arguments and results pinned to placements of its
// letters, and to random ones, strided among them, compared with the row's kernel on one device. Padding is
// full of NaN. Where an axis is free, some operands owe a reduction over it: the compiler may pass it on, or
// has to pay it before the op.
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
  // The sizes that all letters get, after the sample's own: 12 is even on these meshes, 5 is uneven, and of 1
  // most devices get nothing.
  std::vector<int64_t> sizes = {1, 5, 12};
  int random_placements = 3;  // of each kind, per size and mesh
  int64_t every = 1;          // takes every so many-th placement of the letters
  // What else is wrong with a compiled program, or "".
  std::function<std::string(const Program& program)> inspect = nullptr;
};

// Compiles, proves and runs programs of the sample, and adds a line to `findings` for each that fails or
// gives other values. Returns how many there were. The sample's row must be known by its name (RegisterOp, or
// TrialRow), for the proof's sake.
int64_t TryPrograms(const Sample& sample, const ProgramTrialOptions& options,
                    std::vector<std::string>& findings);

}  // namespace meshwork
