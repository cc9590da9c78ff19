// One application of a row, as OpRow::samples writes it: "f32[4,6], f32[6,8]; transpose_a=true".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {

struct Sample {
  const OpRow* row = nullptr;
  std::string text;  // "f32[4,6], f32[6,8]; transpose_a=true"
  std::vector<Type> operands, results;
  Attrs attrs;

  Rule rule() const { return row->rule({operands, results, attrs}); }
  // "matmul f32[4,6], f32[6,8] -> f32[4,8]"
  std::string ToString() const;
};

// "f32[4,6], f32[6,8]" -> {"f32[4,6]", "f32[6,8]"}.
std::vector<std::string> SplitTypes(std::string_view text);

// The sample as a program that the parser reads.
std::string ProgramText(const OpRow& row, std::string_view sample);

// The sample `text` of a row, which need not be registered. Error: the parser's.
absl::StatusOr<Sample> ParseSample(const OpRow& row, std::string_view text);

// The same op with size sizes[l] for each letter l of its rule, except letters with windows; nothing if the
// op cannot have these sizes.
std::optional<Sample> Resized(const Sample& sample, const std::vector<int64_t>& sizes);

// Appends the op to a graph; its results are pinned to `results` and returned as r0, r1, ….
void AddSample(Graph& graph, const Sample& sample, const std::vector<ValueId>& operands,
               const std::vector<Layout>& results);

// The op on arguments %a0, … with the layouts `operands`; its results are pinned to `results`.
Graph BuildGraph(const Sample& sample, const std::vector<Layout>& operands,
                 const std::vector<Layout>& results, const Mesh& mesh);

}  // namespace meshwork
