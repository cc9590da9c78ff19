// The text form of programs, used by tests, tools and dumps alike.
//
//   mesh [batch=2, model=4]
//   func step(%h: f32[128,700] {batch,model}, var %w: f32[700,500] {model,_}) {
//     %0 = matmul %h, %w : f32[128,500] {batch,_}
//     %1 = neg %w
//     update %w = %1
//     return y=%0
//   }
//
// In a global program result types and layouts may be left out (types are inferred, layouts are
// pins). A local program gives for each value the block, the whole and the layout:
// `f32[64,175] of f32[128,700] {batch,model}`. docs/text-format.md has the grammar.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/attrs.h"
#include "meshwork/ir/graph.h"

namespace meshwork {

// Law: FirstDifference(g, ParseGraph(PrintGraph(g))) is "" for every graph that has no recorded mistakes and
// whose name is a word.
std::string PrintGraph(const Graph& graph);

// The name that PrintGraph gives each value: "%x", "%0".
std::vector<std::string> ValueNames(const Graph& graph);

// One node as PrintGraph writes it, without indent.
std::string PrintNode(const Graph& graph, int node);

// The text that PrintGraph writes after a value's name: "f32[64,175] of f32[128,700] {batch,model}".
std::string PrintType(const ValueInfo& info);

// An attribute as PrintGraph writes it: "true", "0.001", "[0,1]", "(batch,model)", "{_,model}".
std::string PrintAttr(const Mesh& mesh, const AttrValue& value);

// Errors are "name:line:column: what; what to do", the line of text and a caret under the place.
// The source location of each node is `file_name` and its line.
absl::StatusOr<Graph> ParseGraph(std::string_view text, std::string_view file_name = "program");

}  // namespace meshwork
