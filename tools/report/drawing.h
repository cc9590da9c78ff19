// A program as a graph to be drawn: its arguments, its ops, the collectives between them, its results.
//
// The program is the user's, not the local one: an op that devices run as several ops is one vertex. Ops that devices
// run in addition – cuts of blocks, masks of padding – are no vertices; the edges pass through them. A collective is
// a vertex on the edges from the op that makes its value to the ops that read it. An op that has none in the user's
// program, such as one that adds a part of a sum in another order, is a vertex of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/layout/layout.h"
#include "meshwork/verify/verify.h"

namespace meshwork {

struct DrawnLayout {
  std::string text;  // "{batch,_ | sum:model}"
  std::string cut;   // the axes that cut the value, "(batch)"; empty if it is whole
  bool is_partial = false;
};

DrawnLayout Describe(const Layout& layout);

struct DrawnVertex {
  enum class Kind : uint8_t { kInput, kVariable, kOp, kLocalOp, kCollective, kOutput, kUpdate };
  Kind kind = Kind::kOp;
  std::string label;   // "matmul", "%w", "all_reduce"
  std::string text;    // as PrintGraph writes it, without attributes: "%y = matmul %h, %w"
  std::string type;    // of the first result, whole: "f32[128,500]"
  DrawnLayout layout;  // of that result
  std::string rule;    // "mk,kn->mn"; empty for what has none
  SourceLocation where;
  int collective = -1;           // its number, in the order of Explain (ir/plan/explain.h)
  int node = -1;                 // of the local program: the first one that the vertex stands for
  std::vector<int> bodies = {};  // of a loop or a branch: drawings
};

// A value that a vertex reads.
struct DrawnEdge {
  int from = 0, to = 0;  // vertices
  int result = 0;        // of `from`
  int operand = 0;       // of `to`
  std::string value;     // "%y"
  DrawnLayout layout;    // as `to` reads it
};

struct Drawing {
  std::string title;                  // "step", "body 1 of scan (model.cc:4)"
  int64_t times = 1;                  // how often it runs in a step
  std::vector<DrawnVertex> vertices;  // in an order in which they can run, but for edges that lead back
  std::vector<DrawnEdge> edges;
};

struct Drawings {
  std::vector<Drawing>
      all;             // the program, then the bodies of its loops and branches, as the devices run them
  int64_t unseen = 0;  // ops of the global program that no device runs: folded, shared or read by none
};

// `proof`: the result of Verify(global, local), which tells what op of `global` an op of `local` belongs to; without
// it the local program is drawn. REQUIRES: `local` is the result of Compile for `global`.
Drawings DrawProgram(const Graph& global, const Graph& local, const std::optional<Proof>& proof);

// The ops that make and read the values that the collectives of a drawing move.
class ValueUsers {
 public:
  // Keeps a reference to `drawing`.
  explicit ValueUsers(const Drawing& drawing);

  // The vertices that make value `value` of the collective `vertex`, or that read it; collectives in between are
  // skipped.
  std::vector<int> MakersOf(int vertex, int value) const { return Reach(into_, vertex, value, true); }
  std::vector<int> ReadersOf(int vertex, int value) const { return Reach(out_of_, vertex, value, false); }

 private:
  std::vector<int> Reach(const std::vector<std::vector<int>>& edges_of, int vertex, int value,
                         bool backwards) const;

  const Drawing& drawing_;
  std::vector<std::vector<int>> into_, out_of_;  // per vertex: edges
};

}  // namespace meshwork
