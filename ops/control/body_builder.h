// Shared by the builders of nodes with bodies: loops, branches, manual regions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/regions.h"

namespace meshwork {

// Holds a body while a user's function builds it.
class BodyBuilder {
 public:
  BodyBuilder(Graph& graph, std::string_view op, SourceLocation location);

  Graph& body() { return body_; }

  // Whether the body may be built; if it nests too deep in other bodies, records the mistake.
  bool MayNest();

  // A new argument, which does not stand for a value around the body.
  Value Argument(std::string name, const Type& type, bool is_variable);
  // For the body of a loop: gives each iteration its own random numbers.
  void CountIterations();
  // The number of the iteration, i64[]; the first call adds a carry that counts.
  Value Iteration();
  // Makes the count, if there is one, the last carry of `node`, whose body has `carries` others.
  void TakeCount(size_t carries, Node& node);
  bool counts() const { return iteration_.valid(); }
  // A value that the function returned, as the body sees it.
  ValueId Returned(const Value& value, std::string_view what, size_t index);

  template <typename... Args>
  void Fail(fmt::format_string<Args...> format, Args&&... args) {
    is_valid_ = false;
    graph_.RecordError(graph_.Describe(op_, location_) + ": " +
                       fmt::format(format, std::forward<Args>(args)...));
  }

  // Ends the body: nothing may be added any more, and captured values become arguments. True if the body has
  // no mistakes.
  bool Close();

  RegionParts& parts() { return parts_; }
  Graph Region() const { return MakeRegion(body_, parts_); }

 private:
  Graph& graph_;
  Graph& body_;
  std::string op_;
  SourceLocation location_;
  RegionParts parts_;
  bool is_valid_ = true;
  Value iteration_, next_iteration_;  // once asked for
};

// Adds the node and returns its results. If the node is wrong, records the mistake and returns none.
std::vector<Value> AddNodeOf(Graph& graph, Node node);

// Writes the operands of a node with a body, as `graph` sees them, to `resolved`. If some are invalid,
// records the mistake and returns false; these stay invalid.
bool ResolveOperands(Graph& graph, BodyBuilder& builder, std::string_view what,
                     const std::vector<Value>& values, std::vector<Value>& resolved);

}  // namespace meshwork
