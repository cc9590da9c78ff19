// The pieces of a process's step. A piece is the work of one instruction of its CPUs (runtime/cpu/schedule.h) as a
// program of its own, which can be timed alone (tools/simulate/measure.h).
//
//   %h = matmul %x, %w        the products of all devices of the process, what follows them row by row, and the sums
//   %r = relu %h              that the kernel makes (runtime/plan/coalesce.h) are one piece:
//                             func piece(%i0, %i1) { … return o0=%r }
//
// Pure functions; thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/runtime/cpu/schedule.h"

namespace meshwork {

struct Piece {
  // Pieces with equal keys take the same time: "matmul+relu f32[64,784] f32[784,700] #9f2c…", with the hash of the
  // program's text.
  std::string key;
  Graph program;  // inputs "i0", …, outputs "o0", …, for one domain
  // The values of the schedule's program that become the inputs and the outputs.
  std::vector<ValueId> inputs, outputs;
  std::map<std::string, std::string> in_place = {};  // output -> the input that it is written over
};

struct Pieces {
  std::vector<Piece> all;  // in the order of their last instructions
  // Per instruction: its piece. -1: it has none, as it copies, crosses between domains, or writes or reads pending
  // sums that go beyond its piece. Instructions that pass pending sums on to each other share one piece.
  std::vector<int> of;
};

// The pieces of a schedule, without those of the bodies of its loops.
Pieces CutPieces(const Schedule& schedule);

}  // namespace meshwork
