// Loops and branches over global values: scan, while, if.
//
// Each is a node with regions. A region is a program of its own: its variables are the values carried from
// one iteration to the next, its step is one iteration, and its outputs are the results of the iteration.
//
//   %h1, %all = scan %h0, %xs, %w length=8 slices=1 (var %h: f32[4,6], %x: f32[4,6], %w: f32[6,6]) {
//     %0 = matmul %h, %w : f32[4,6]
//     %1 = add %0, %x : f32[4,6]
//     update %h = %1
//     return %1
//   } : f32[4,6], f32[8,4,6]
//
//   scan   arguments: carries (variables), then slices of `slices` operands, then captured values. Results:
//          the carries after the last iteration; the region's outputs, stacked over the iterations; the last
//          `sums` outputs are added up over the iterations instead, those of bf16 in f32, rounded once.
//   while  arguments: carries, captured values. Returns whether the iteration is to run: if not, the carries
//          stay as they are. Results: the carries.
//   if     operands: the predicate, and captured values, which are the arguments of both regions. Results:
//          the outputs of the chosen region.
//
// The sums of a scan may be partial while it runs: the sum over devices is made once, after the loop. A carry
// that an iteration only adds to is such a sum (Scan writes it in this way). So is any carry that is linear
// in itself and in partial sums: it owes the same sum before, in and after every iteration.
//
// The compiler gives each carry one layout throughout; predicates are whole and proven to be the same on all
// devices, so that every device runs the same collectives.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// ---- Builder functions for loops and branches. Bodies may read any value of the program around them. A value that a
// body makes can be read only inside the body; to use it outside, return it. Mistakes are recorded, those in a body
// with their own lines.

struct ScanStep {
  std::vector<Value> carries = {};  // for the next iteration
  std::vector<Value> stacked = {};  // every iteration gives one slice of the result
  std::vector<Value> sums = {};     // added up over the iterations, those of bf16 in f32
};

struct ScanResult {
  std::vector<Value> carries;  // after the last iteration
  std::vector<Value> stacked;  // [length, ..]
  std::vector<Value> sums;
};

struct ScanOptions {
  int64_t length = -1;   // iterations; -1: as many as xs have slices
  bool reverse = false;  // the last slice first
  // The gradient keeps only the carries and slices of each iteration, and computes all other values again.
  bool recompute = false;
  // The slices are parts of a batch: iteration i has the rows i, i + length, … of the batch. The body then draws the
  // random numbers that the whole batch has at these rows, and means that leave rows out (MeanOver, ops/losses.h) are
  // weighted as in the whole batch. Otherwise each iteration draws its own random numbers, and its means are over its
  // own rows.
  bool is_batch_in_parts = false;
};

// Runs `body` for each slice of `xs` along their dim 0. xs: [length, ..] each; the body sees [..].
// Errors: xs of different lengths, or none and no length; a negative length; carries of other number or types
// than the initial ones; values of another program; more than kMaxNesting bodies in each other.
using ScanBody =
    std::function<ScanStep(Graph& body, const std::vector<Value>& carries, const std::vector<Value>& slices)>;
ScanResult Scan(Graph& graph, const std::vector<Value>& carries, const std::vector<Value>& xs,
                const ScanBody& body, const ScanOptions& options = {}, CallSite loc = CallSite::Current());

// Runs `body` on the carries as long as `condition` of the carries, a bool[], is true. Has no gradient.
using WhileCondition = std::function<Value(Graph& body, const std::vector<Value>& carries)>;
using WhileBody = std::function<std::vector<Value>(Graph& body, const std::vector<Value>& carries)>;
std::vector<Value> While(Graph& graph, const std::vector<Value>& carries, const WhileCondition& condition,
                         const WhileBody& body, CallSite loc = CallSite::Current());

// The results of `then` if `predicate`, a bool[], is true, else those of `otherwise`, which have the same
// types. Only the chosen branch is computed.
using Branch = std::function<std::vector<Value>(Graph& body)>;
std::vector<Value> If(const Value& predicate, const Branch& then, const Branch& otherwise,
                      CallSite loc = CallSite::Current());

}  // namespace meshwork
