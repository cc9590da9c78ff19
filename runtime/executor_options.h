// How an executor runs a program, and what that takes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "meshwork/base/debug.h"

namespace meshwork {

class Transport;

using InPlace = std::map<std::string, std::string>;  // an input, by the output that replaces it

struct ExecutorOptions {
  // One instance of what is the same on several devices; otherwise one per device, for comparison.
  bool share = true;
  // Ops of devices that read the same operand run as one, and sums of what they compute are made where it is
  // computed (runtime/coalesce.h); otherwise device by device, as always without sharing. Sums then come out
  // in another order.
  bool coalesce = true;
  // Chains of ops run a few rows at a time (runtime/cpu/fusion.h); otherwise op by op, for comparison.
  bool fuse = true;
  // Fill all temporary memory, outputs, and the padding of variables with NaN (bytes 0xFF) before each step:
  // what is in padding, or left over from another value, then shows if anything reads it.
  bool poison_padding = kDebugBuild;
  // Compare what becomes an output or a variable's new value wherever its layout says that devices hold the
  // same and each has its own (see runtime/replicas.h). With share=true that is only what the program does
  // not prove to be the same. Within this domain; what others hold is not compared.
  bool check_replicas = kDebugBuild;
  // Measure every instruction of every step; see Profile().
  bool profile = false;
  // Record when each instruction of the last so many steps ran; see Trace(). Measures for a profile, too.
  int trace_steps = 0;
  // Carries what crosses to other domains, of a program for several (CompileOptions::num_domains); it says
  // which one is this. It must outlive the executor. Null: there is one domain.
  Transport* transport = nullptr;
  // The inputs and outputs that steps are bound to as DTensors, by name: what this domain holds of them.
  // Others are whole host tensors, which are the same in all domains. An output whose blocks lie in several
  // domains has to be one of them.
  std::set<std::string> distributed = {};
  // Outputs that take the memory of an input, and its place: of caches, and of recurrent state, that a step
  // reads and gives anew. Both are distributed, of one type and layout. A step writes the output over what is
  // fed, in place where variables would be, so that state goes from step to step without a copy.
  InPlace in_place = {};
};

// What a program needs here, all devices together. Inputs and outputs, which are host tensors, do not count,
// nor do the tables of the plan itself, and the cache line that an empty arena takes.
struct ExecutorMemory {
  int64_t private_bytes = 0;   // of one worker each
  int64_t shared_bytes = 0;    // of values that several workers touch
  int64_t constant_bytes = 0;  // what is computed once
  int64_t variable_bytes = 0;  // bound variables, also if other executors share them
  int num_barriers = 0;        // per step
  int num_instructions = 0;    // per step

  int64_t total_bytes() const { return private_bytes + shared_bytes + constant_bytes + variable_bytes; }
  bool operator==(const ExecutorMemory&) const = default;
};

}  // namespace meshwork
