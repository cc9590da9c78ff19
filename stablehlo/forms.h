// The form of an op in StableHLO: what it computes, on the blocks that a device holds, in ops of that language. One
// program is for all replicas, so a form asks for what depends on the device by HloText::OfThisDevice.
//
// Forms are listed by family, and found by the name of the row; a row without one is named by WriteStableHlo.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/mesh/mesh.h"
#include "meshwork/stablehlo/module_text.h"

namespace meshwork::stablehlo {

// A node of a local program that is to be written.
struct FormView {
  HloText& text;
  const Graph& graph;  // the program, or the body of a loop
  const Node& node;
  HloValues operands;

  const Attrs& attrs() const { return node.attrs; }
  // The block that a device holds of result r.
  const Type& result(size_t r = 0) const { return graph.value(node.results[r]).type; }
  const ValueInfo& result_info(size_t r = 0) const { return graph.value(node.results[r]); }
  const ValueInfo& operand_info(size_t i) const { return graph.value(node.operands[i]); }
  const Mesh& mesh() const { return graph.mesh(); }

  // Operand i, as reals of at least 32 bits if it is one of 16.
  HloValue Wide(size_t i) const;
  // Operand i, stretched to the shape of result 0.
  HloValue Stretched(size_t i) const { return text.Broadcast(operands[i], result().shape); }
  // The elements of this value along dim d that a device holds.
  static Extent ExtentOn(const ValueInfo& value, size_t d, int64_t device);
  // Where the block of this value begins along dim d, and how many elements it has there that are not padding. i64[].
  HloValue StartOf(const ValueInfo& value, size_t d) const;
  HloValue SizeOf(const ValueInfo& value, size_t d) const;
  // Of each element of result 0, its index along dim d in the whole tensor. i64, of the result's shape.
  HloValue IndexAlong(size_t d) const;
};

// Writes the node and returns its results, of the types of the node's. Error: UNIMPLEMENTED, if these attributes have no form.
using Form = absl::StatusOr<HloValues> (*)(const FormView& view);

struct NamedForm {
  std::string_view op;
  Form form;
};

// The form of a row; null if it has none.
Form FindForm(std::string_view op);

// Writes what follows a node's result; gives what later nodes take instead of it.
using PlaceResult = std::function<HloValue(ValueId id, const HloValue& value)>;

// Writes the nodes of a program or a body, whose arguments are `arguments`; gives the values of the graph, by their numbers.
// A note of a global program gives its operand. Error: UNIMPLEMENTED, with all ops that have no form.
absl::StatusOr<HloValues> WriteNodes(HloText& text, const Graph& graph, const HloValues& arguments,
                                     const PlaceResult& placed = nullptr);

// The families.
std::span<const NamedForm> ElementwiseForms();  // elementwise.cc: arithmetic, comparisons, bits, casts
std::span<const NamedForm>
FunctionForms();  // functions.cc: functions of one real, special functions, activations
std::span<const NamedForm> ShapeForms();       // shapes.cc: shapes, slices, joins
std::span<const NamedForm> IndexForms();       // indexing.cc: elements by index, order, cumulative
std::span<const NamedForm> ReductionForms();   // reductions.cc
std::span<const NamedForm> ProductForms();     // products.cc: products of matrices
std::span<const NamedForm> WindowForms();      // windows.cc: convolutions, pooling
std::span<const NamedForm> LinalgForms();      // linalg.cc: cholesky, triangular_solve, qr
std::span<const NamedForm> GenerationForms();  // generation.cc: values made in place
std::span<const NamedForm> AttentionForms();   // attention.cc
std::span<const NamedForm> RandomForms();      // random.cc: random values
std::span<const NamedForm> OptimizerForms();   // optimizers.cc
std::span<const NamedForm> CollectiveForms();  // collectives.cc: collectives and local ops
std::span<const NamedForm> ControlForms();     // control.cc: loops and branches

}  // namespace meshwork::stablehlo
