// One op = one row: everything meshwork knows about it, in one place.
//
// Rows of the library are written in ops/<family>.cc and listed explicitly in control/families.cc; a program
// adds its own by RegisterOp. The contract test (tests/contract) walks the library's: a row without samples
// does not pass. CheckOp (check/check_op.h) tries one row as that test does.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ir/rule.h"

namespace meshwork {

struct Exchange;

// What inference and rules see of a node. `results` is empty during inference.
struct OpView {
  const std::vector<Type>& operands;
  const std::vector<Type>& results;
  const Attrs& attrs;
};

struct OperandDim {
  int operand, dim;
};

// What a blockwise form sees of a node: the dim along which it has the form is cut in `count` blocks, which
// lie as `cut` says.
struct BlockwiseView {
  std::span<const Value> operands;
  const Attrs& attrs;
  int64_t count;
  DimSpec cut;
  std::span<const Layout> layouts = {};  // of the operands; empty: all forms that there are
};

// What a gradient sees of a node. Builder calls made with these values append to the graph.
struct GradView {
  std::span<const Value> operands;
  std::span<const Value> results;
  std::span<const Value> result_grads;  // invalid where the loss does not depend on a result
  const Attrs& attrs;
  SourceLocation location;
};

enum class OpKind {
  kCompute,     // works on whole tensors; Localize runs it on blocks by its rule
  kCollective,  // exchanges blocks between devices; only in local programs
  kLocal,       // local programs only, no communication: slices of a block, padding masks
  kIdentity,    // a note for the compiler (relayout, stop_gradient) that leaves no local node
  kControl,     // a loop, a branch, a manual region: its regions say what it computes (ir/regions.h)
  kDevice,      // exchanges blocks in a manual region; only there (control/manual.h)
};

// What a collective exchanges; ir/collective_spec.h reads the rest off a node.
enum class CollectiveKind : uint8_t {
  kNone,           // the op is no collective
  kAllGather,      // puts blocks together along a dim
  kAllReduce,      // combines; every device gets the whole
  kAllToAll,       // puts blocks together along one dim and cuts another
  kAllToAllV,      // moves from one layout to another, in parts
  kPermute,        // moves whole blocks from one layout to another
  kExchange,       // puts blocks together of slices, joins, windows of neighbours (ir/exchange.h)
  kReduceScatter,  // combines; every device gets its block
};

// What the regions of an op mean (control/control_flow.h, control/manual.h).
enum class ControlKind : uint8_t { kNone, kScan, kWhile, kIf, kManual };

// Everything meshwork knows about an op.
struct OpRow {
  std::string_view name;
  std::string_view doc;
  int num_operands = 1;       // -1: any number >= 1
  int optional_operands = 0;  // so many more may follow
  int num_results = 1;
  OpKind kind = OpKind::kCompute;
  CollectiveKind collective = CollectiveKind::kNone;  // of kCollective, and of kDevice
  ControlKind control = ControlKind::kNone;           // of kControl
  int num_regions = 0;                                // of kControl
  std::vector<AttrSpec> attrs = {};

  // Result types from operand types and attributes. Errors read "k differs: a is …, b is …"; the
  // graph puts the op and its source line in front.
  absl::StatusOr<std::vector<Type>> (*infer)(const OpView& view) = nullptr;
  // Of kControl, in place of `infer`: result types of a node from its regions (InferControl, ir/regions.h).
  // Errors: everything that the node must be and is not.
  absl::StatusOr<std::vector<Type>> (*infer_regions)(const Node& node,
                                                     const std::vector<Type>& operands) = nullptr;
  // The sharding rule; kCompute rows have one.
  Rule (*rule)(const OpView& view) = nullptr;
  // The attributes of the same op on operands of other sizes: blocks, another batch. Null: only what is
  // the result's shape follows (AttrSpec::is_result_shape). Error: a dim that has no other size.
  absl::StatusOr<Attrs> (*resize)(const OpView& view, const std::vector<Type>& operands) = nullptr;
  // Of an op that only moves elements: the exchange that it is. Operands that an exchange has more of than
  // the op are its last one. Along sharded dims this is how the op runs.
  Exchange (*exchange)(const OpView& view) = nullptr;
  // The op in terms of others, on blocks of a dim (ops/blockwise.h). Empty if so many blocks are better
  // gathered.
  std::vector<Value> (*blockwise)(const BlockwiseView& view) = nullptr;
  // That dim, or nothing if it has no such form with these attributes. Null: the dim of the first operand
  // whose letter is carried (ir/rule.h).
  std::optional<OperandDim> (*blockwise_at)(const Attrs& attrs) = nullptr;
  // Of another op whose rule has windows: `attrs`, those of the op on blocks, for operands that are windows
  // along `dims`, or blocks that are all that is seen (WindowedDim::is_own). What lay beyond the ends is in
  // the windows.
  Attrs (*on_windows)(const Attrs& attrs, std::span<const WindowedDim> dims) = nullptr;
  // Gradients of the operands, in order; invalid for "none". ZeroGradient (ir/gradients.h): it is flat.
  // Null: none; a loss that depends on real operands by real results of the op has no gradient, an error.
  std::vector<Value> (*grad)(const GradView& view) = nullptr;
  // Of kControl, in place of `grad`: the gradients of the operands of node `n`, per operand; invalid for
  // none. Appends to the graph; may add results to the node. `needed`: per operand. Errors: it has none.
  absl::StatusOr<std::vector<Value>> (*grad_regions)(Graph& graph, int n,
                                                     const std::vector<Value>& result_grads,
                                                     const std::vector<bool>& needed) = nullptr;
  // Floating-point operations of the whole op; null: one per result element.
  double (*flops)(const OpView& view) = nullptr;
  // Null of rows of the library whose kernels call oneDNN or OpenBLAS: these are in a room of their own, so
  // that what only parses or compiles needs no such library. CpuKernelOf (kernels/blas/cpu_kernels.h) has
  // both.
  KernelFactory cpu = nullptr;
  // What `cpu` makes one kernel of for all instances of the op, see StackDim: `spec` with leading dims.
  // Null, and nullopt: there is none; the instances run one by one.
  std::optional<KernelSpec> (*stack)(const KernelSpec& spec, const StackDims& dims) = nullptr;
  // Works a few operations per element that it reads or writes, so that it costs little where these are in the
  // cache: the order of a program is chosen for that (runtime/arrange.h), and a sum may be made before such ops
  // (runtime/reduce_early.h). Of rows that stack.
  bool is_light = false;
  // A product over letters (matmul, convolution), which costs far more than to move its operands.
  bool is_product = false;
  // The kernel's result depends on where the block lies (iota, random, padding masks).
  bool reads_block = false;
  // Result r may be written over operand in_place[r] (same type, element by element); -1: never.
  std::vector<int> in_place = {};
  // The only result is the only operand's elements in the same order. Where it may, it lies in the operand's
  // memory, and the kernel does not run.
  bool is_view = false;
  // For the contract test and CheckOp: "f32[4,6], f32[6,8]", attributes after a ';': "f32[4,6]; dims=[1]".
  std::vector<std::string_view> samples = {};
  // Sample values of floating-point operands are drawn from [sample_low, sample_high), those of whole
  // numbers from [sample_int_low, sample_int_high).
  double sample_low = -1, sample_high = 1;
  int64_t sample_int_low = 1, sample_int_high = 7;
};

// `attrs` of a node of this row whose first result has `shape`; see AttrSpec::is_result_shape.
Attrs WithResultShape(const OpRow& row, Attrs attrs, const Shape& shape);
// The attributes of a node for operands of other types and a first result of `shape`. Errors: the row's
// resize's.
absl::StatusOr<Attrs> ResizedAttrs(const OpRow& row, const OpView& view, const std::vector<Type>& operands,
                                   const Shape& shape);

// Whether a node of this row may have so many operands. The error: "takes 1 operand, got 2."
absl::Status CheckOperandCount(const OpRow& row, size_t given);

// Operand and result types of a node.
std::vector<Type> TypesOf(const Graph& graph, std::span<const ValueId> values);
std::vector<Type> GlobalTypesOf(const Graph& graph, std::span<const ValueId> values);
// The rule of a node of a global program. REQUIRES: its row has one.
Rule RuleOf(const Graph& graph, const Node& node);

// The row called `name`. Error: there is none (with the nearest name).
absl::StatusOr<const OpRow*> FindOp(std::string_view name);
// As FindOp for names the code itself writes. REQUIRES: the row exists.
const OpRow& GetOp(std::string_view name);
// Every row there is at the moment: those of the library in the order of the families, then what was
// registered, in that order. The list stays as it is when more are registered.
const std::vector<const OpRow*>& AllOps();

// Makes an op of a row from outside of the library:
//
//   MESHWORK_RETURN_IF_ERROR(RegisterOp({.name = "swiglu", .doc = "a sigmoid(a) b", .num_operands = 2, …}));
//   graph.Add("swiglu", {{a, b}}, {}, CallSite::Current());    // or AddOp (ir/builder.h), or in a text
//
// From then on FindOp, GetOp and AllOps know it, and all that goes by them: Graph::Add, the text form, the
// compiler, Verify. A copy of the row is kept for the life of the process, with what its string_views name.
// Any thread may call it, and the others above, at any time. Errors, which leave things as they were: a name
// that is taken, and those of CheckRow.
absl::Status RegisterOp(OpRow row);
// What RegisterOp asks of a row by itself. Errors: a name that the parser would not read as one; no doc,
// infer, rule, cpu or samples; a kind other than kCompute, or regions; counts of operands and results that
// cannot be; an attribute that the parser could not read; a sample that is no application of the row.
absl::Status CheckRow(const OpRow& row);

}  // namespace meshwork
