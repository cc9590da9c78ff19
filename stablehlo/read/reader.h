// How ops of a module become nodes of a graph: a function for each op, listed by family.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "meshwork/ir/graph.h"
#include "meshwork/stablehlo/read/known.h"
#include "meshwork/stablehlo/read/mlir.h"

namespace meshwork::mlir {

using Ints = std::vector<int64_t>;

inline bool Contains(const Ints& list, int64_t x) {
  return std::find(list.begin(), list.end(), x) != list.end();
}

// Of a permutation.
inline Ints InverseOf(const Ints& order) {
  Ints inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

// Calls and regions in each other.
inline constexpr int kDeepest = 128;

// A value of the module while it is read.
struct Bound {
  // Invalid where `known` says all of it, and no node has needed it yet.
  Value value = {};
  TensorType type = {};
  Known known = {};

  Bound() = default;
  Bound(const Value& value) : value(value) {}  // NOLINT: implicit; the reader of the module adds the type
  Bound(TensorType type, const Known& known) : type(std::move(type)), known(known) {}
};
using Bounds = std::vector<Bound>;

// The number that all elements are. REQUIRES: it is known.
double NumberOf(const Bound& bound);

// The names that an op may use.
struct Scope {
  const Scope* outer = nullptr;
  std::map<std::string, Bounds> values = {};

  const Bound* Find(const ValueRef& ref) const;
};

// The dtype that holds the elements: whole numbers without a sign are those of the same bits. Error: there is none.
absl::StatusOr<DType> DTypeOfElement(std::string_view element);
inline bool IsUnsigned(const TensorType& type) { return type.element.starts_with('u'); }
inline bool IsRealElement(const TensorType& type) {
  return type.element.starts_with('f') || type.element.starts_with("bf");
}
// Error: a dynamic size, elements that no dtype holds, more elements than a tensor may have.
absl::StatusOr<Type> TypeOf(const TensorType& type);

class ModuleReader;

// An op that is read into `graph`.
struct OpView {
  ModuleReader& reader;
  Graph& graph;
  const Op& op;
  const Scope& scope;
  SourceLocation location;
  Bounds operands = {};

  absl::Status Fail(std::string_view message) const { return FailAt(op.at, message); }
  absl::Status FailAt(size_t at, std::string_view message) const;

  // Operand i as a value of the graph.
  Value Arg(size_t i) const;
  std::vector<Value> Args() const;
  // The same for an op that broadcasts: a known number is a scalar, and instead of a broadcast there is its operand.
  Value Light(size_t i) const;
  // All operands of an op that works element by element, as light as their shapes allow.
  std::vector<Value> LightArgs() const;
  // The types as they are written; of an operand or a result that there is not, one that is no tensor.
  const TensorType& type(size_t i) const { return TypeAt(op.operand_types, i); }
  const TensorType& result(size_t r = 0) const { return TypeAt(op.result_types, r); }
  // REQUIRES: checked, as those of all results are before the op is read.
  Type result_type(size_t r = 0) const;

  // Attributes. Errors: there is none of the name, unless a default is given; another form.
  const Attribute* FindAttribute(std::string_view name) const { return op.attributes.Find(name); }
  absl::StatusOr<int64_t> Int(std::string_view name, std::optional<int64_t> otherwise = {}) const;
  absl::StatusOr<bool> Bool(std::string_view name, bool otherwise) const;
  absl::StatusOr<std::vector<int64_t>> Ints(std::string_view name,
                                            std::optional<std::vector<int64_t>> otherwise = {}) const;
  // The last word of #stablehlo<comparison_direction GE>.
  absl::StatusOr<std::string> Word(std::string_view name, std::string_view otherwise = "") const;
  // Of the dict #stablehlo.gather<…>, the list `member`; empty: there is none.
  absl::StatusOr<std::vector<int64_t>> IntsOf(const Attribute& dict, std::string_view member) const;
  absl::StatusOr<int64_t> IntOf(const Attribute& dict, std::string_view member, int64_t otherwise) const;
  // Error: the op has other numbers of operands, results or regions.
  absl::Status Expect(size_t num_operands, size_t num_results = 1, size_t num_regions = 0) const;

  // A scalar of this dtype.
  Value Number(double number, DType dtype) const;

 private:
  static const TensorType& TypeAt(const std::vector<TensorType>& types, size_t i) {
    static const TensorType none{.element = "none", .is_tensor = false};
    return i < types.size() ? types[i] : none;
  }
};

using ReadOp = absl::StatusOr<Bounds> (*)(const OpView& view);
struct NamedReadOp {
  std::string_view op;  // "stablehlo.add"
  ReadOp read;
};
// Null: the op is not read.
ReadOp FindReadOp(std::string_view op);
const std::map<std::string_view, ReadOp>& AllReadOps();

std::span<const NamedReadOp> ElementwiseOps();  // elementwise.cc
std::span<const NamedReadOp> ShapeOps();        // shapes.cc
std::span<const NamedReadOp> IndexOps();        // indexing.cc: gather, scatter, dynamic slices
std::span<const NamedReadOp> ReductionOps();    // reductions.cc: reduce, sort, top_k
std::span<const NamedReadOp> ProductOps();      // products.cc: dot_general, convolution, solvers
std::span<const NamedReadOp> WindowOps();       // windows.cc: reduce_window, select_and_scatter
std::span<const NamedReadOp> ControlOps();      // control.cc: calls, loops, branches
std::span<const NamedReadOp> ShardingOps();     // shardings.cc: pins

// Reads a module, function by function, into one graph.
class ModuleReader {
 public:
  // `recomputes`: whether gradients of scans compute their bodies again.
  ModuleReader(const Module& module, std::string_view text, std::string_view file, bool recomputes);

  const Module& module() const { return module_; }
  std::string_view text() const { return text_; }
  std::string_view file() const { return file_; }
  bool recomputes() const { return recomputes_; }
  absl::Status FailAt(size_t at, std::string_view message) const;

  // Null: there is none.
  const Op* FindFunction(std::string_view name) const;
  // Reads the ops of a block with these arguments; gives what it returns. Errors: those of ops; too many ops; calls and regions
  // that lie too deep in each other.
  absl::StatusOr<Bounds> Run(Graph& graph, const Region& region, Bounds arguments, const Scope* outer);
  // Reads the body of a function. Errors: other arguments than it takes; those of Run.
  absl::StatusOr<Bounds> Call(Graph& graph, const Op& function, Bounds arguments, const Op& call);
  // How the `while` runs, if it runs a known number of times.
  absl::StatusOr<std::optional<CountedLoop>> FindCount(const OpView& view);

  // `bound` as a value of the graph. Invalid: a value of a loop that no node may read.
  Value Materialize(Graph& graph, const Bound& bound) const;
  SourceLocation LocationOf(const Op& op) const;
  // Counts an op, and the elements of its own, against what one module may become.
  absl::Status CountOp(const Op& op, int64_t elements = 0);

 private:
  absl::StatusOr<Bounds> RunOps(Graph& graph, const Region& region, Bounds arguments, const Scope* outer);
  absl::StatusOr<Bounds> ReadOne(Graph& graph, const Op& op, const Scope& scope);
  // The mistakes that nodes of `graph` and of those around it have recorded.
  absl::Status CheckMistakes(const Graph& graph, const Op& op) const;

  const Module& module_;
  std::string_view text_, file_;
  bool recomputes_;
  std::vector<size_t> line_starts_;  // in the text
  int64_t ops_ = 0;
  int depth_ = 0;  // of calls and regions
};

// x under another shape. Where dims of size 1 come or go, and nothing else, it is a Squeeze and an ExpandDims, which say which dim of the
// result is which of x, so that layouts pass.
Value WithSizesOfOne(const Value& x, const Shape& shape);

// Numbers of ui32 as i64.
Value Widened(const Value& x);

// Numbers that are only stored as such to compute with: f16 as f32, u8 and i8 as i32. What is computed is cast back, which rounds it, or
// drops its high bits.
Value ToArithmetic(const Value& x);
// Back to the element type of result r, if that is one which is only stored.
Value FromArithmetic(const OpView& view, const Value& x, size_t r = 0);

// Of an operand without a sign the numbers with their top bits flipped, so that comparisons of numbers with a sign order them; a second
// time it gives them back. Others as they are.
Value InSignedOrder(const OpView& view, const Value& x, size_t operand = 0);

// What a region of two scalars does, for ops that take functions.
enum class Combiner { kAdd, kMultiply, kMaximum, kMinimum, kAnd, kOr, kSecond };
// Nothing: something else. `region`: (a, b) -> one of these.
std::optional<Combiner> CombinerOf(const Region& region);
// Whether a value is known to change nothing where it is combined: 0 of a sum, -∞ of a maximum.
bool IsIdentity(const Bound& bound, Combiner combiner);
// How a region orders elements of several operands: of the arguments a and b at 2 i and 2 i + 1 for each operand i it returns whether
// those of a come first. The first key that differs decides.
enum class Order { kAscending, kDescending };
struct SortKey {
  size_t operand;
  Order order;
};
// Empty: it is no such order.
std::vector<SortKey> SortKeysOf(const Region& region, const std::vector<TensorType>& types);
// Whether the region (value, index, value, index) gives the larger (smaller) value, NaN before all, and of equal ones that of the
// lower index. Nothing: something else.
std::optional<Order> ExtremumOf(const Region& region);

}  // namespace meshwork::mlir
