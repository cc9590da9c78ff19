// Loops and branches over global values: scan, while, if.
//
// Each is a node with regions. A region is a program of its own: its variables are what is carried from one
// iteration to the next, its step is one iteration, and what it returns is what the iteration gives.
//
//   %h1, %all = scan %h0, %xs, %w length=8 slices=1 (var %h: f32[4,6], %x: f32[4,6], %w: f32[6,6]) {
//     %0 = matmul %h, %w : f32[4,6]
//     %1 = add %0, %x : f32[4,6]
//     update %h = %1
//     return %1
//   } : f32[4,6], f32[8,4,6]
//
//   scan   arguments: carries (variables), slices of the operands before which `slices` says how many there
//          are, captured values. Results: the carries after the last iteration; what is returned, stacked;
//          the last `sums` of it added up over the iterations instead.
//   while  arguments: carries, captured values. Returns whether the iteration is to run: if not, the carries
//          stay as they are. Results: the carries.
//   if     operands: the predicate, captured values, which are the arguments of both regions. Results: what
//          the region that is chosen returns.
//
// What a scan adds up may be owed while it runs: the sum over devices is made once, after the loop. A carry
// that an iteration only adds to is such a sum (Scan writes it so). So is any carry that is linear in itself
// and in sums that are owed: it owes the same sum before, in and after every iteration.
//
// The compiler lays each carry out in one way throughout; predicates are whole and proven to be the same on
// all devices, so that every device runs the same collectives.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// ---- How a user writes them. Bodies may read any value of the program around them. A value that a body
// makes is read inside it alone: return it. Mistakes are recorded, those in a body with their own lines.

struct ScanStep {
  std::vector<Value> carries;       // for the next iteration
  std::vector<Value> stacked = {};  // one slice of each is kept of every iteration
  std::vector<Value> sums = {};     // added up over the iterations
};

struct ScanResult {
  std::vector<Value> carries;  // after the last iteration
  std::vector<Value> stacked;  // [length, ..]
  std::vector<Value> sums;
};

struct ScanOptions {
  int64_t length = -1;   // iterations; -1: as many as xs have slices
  bool reverse = false;  // the last slice first
  // The gradient keeps only the carries and slices of each iteration, and computes the rest of it again.
  bool recompute = false;
};

// Runs `body` for each slice of `xs` along their dim 0. xs: [length, ..] each; the body sees [..].
// Errors: xs of different lengths, or none and no length; a negative length; carries of other number or types
// than the initial ones; values of another program; more than kMaxNesting bodies in each other.
using ScanBody =
    std::function<ScanStep(Graph& body, const std::vector<Value>& carries, const std::vector<Value>& slices)>;
ScanResult Scan(Graph& graph, const std::vector<Value>& carries, const std::vector<Value>& xs,
                const ScanBody& body, const ScanOptions& options = {}, CallSite loc = CallSite::Current());

// Runs `body` on the carries as long as `condition` of them, a bool[], is true. Has no gradient.
using WhileCondition = std::function<Value(Graph& body, const std::vector<Value>& carries)>;
using WhileBody = std::function<std::vector<Value>(Graph& body, const std::vector<Value>& carries)>;
std::vector<Value> While(Graph& graph, const std::vector<Value>& carries, const WhileCondition& condition,
                         const WhileBody& body, CallSite loc = CallSite::Current());

// What `then` returns where `predicate`, a bool[], is true, else what `otherwise` does: values of the same
// types. Only the chosen one is computed.
using Branch = std::function<std::vector<Value>(Graph& body)>;
std::vector<Value> If(const Value& predicate, const Branch& then, const Branch& otherwise,
                      CallSite loc = CallSite::Current());

}  // namespace meshwork
