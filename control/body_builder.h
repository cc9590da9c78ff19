// Shared by the builders of nodes with bodies: loops, branches, manual regions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork/ir/regions.h"

namespace meshwork {

// A body while a user's function builds it.
class BodyBuilder {
 public:
  BodyBuilder(Graph& graph, std::string_view op, SourceLocation location);

  Graph& body() { return body_; }

  // Whether the body may be built; otherwise the mistake is recorded: it stands too deep in others.
  bool MayNest();

  // An argument that is none of the values around it.
  Value Argument(std::string name, const Type& type, bool is_variable);
  // What the function returned, as the body sees it.
  ValueId Returned(const Value& value, std::string_view what, size_t index);

  template <typename... Args>
  void Fail(fmt::format_string<Args...> format, Args&&... args) {
    is_valid_ = false;
    graph_.RecordError(graph_.Describe(op_, location_) + ": " +
                       fmt::format(format, std::forward<Args>(args)...));
  }

  // Nothing is added to the body any more; what it captured becomes arguments. True if nothing is wrong with
  // it.
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
};

// Adds the node and returns its results; none, and the mistake recorded, where something is wrong with it.
std::vector<Value> AddNodeOf(Graph& graph, Node node);

// Operands of a node with a body as `graph` sees them. False, and the mistake recorded, if some are invalid,
// which stay so.
bool ResolveOperands(Graph& graph, BodyBuilder& builder, std::string_view what,
                     const std::vector<Value>& values, std::vector<Value>& resolved);

}  // namespace meshwork
