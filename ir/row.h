// One op = one row: everything meshwork knows about it, in one place.
//
// Rows of the library are written in ops/<family>.cc or ops/control/<family>.cc, and listed explicitly in
// ops/control/families.cc; a program adds its own rows by RegisterOp. The contract test (tests/contract) walks the
// library's rows: a row without samples does not pass. CheckOp (tools/check/check_op.h) tries one row in the same way.
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

// The view of a node that inference and rules get. `results` is empty during inference.
struct OpView {
  const std::vector<Type>& operands;
  const std::vector<Type>& results;
  const Attrs& attrs;
};

struct OperandDim {
  int operand, dim;
};

// The view of a node that a blockwise form gets. The dim along which the op has the form is cut into `count`
// blocks, with the sharding `cut`.
struct BlockwiseView {
  std::span<const Value> operands;
  const Attrs& attrs;
  int64_t count;
  DimSpec cut;
  std::span<const Layout> layouts = {};  // of the operands; empty: any form will do
};

// The view of a node that a gradient gets. Builder calls made with these values append to the graph.
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
  kIdentity,  // a note for the compiler (relayout, stop_gradient, …) that leaves no local node; see IsNote
  kControl,   // a loop, a branch, a manual region: its regions say what it computes (ir/regions.h)
  kDevice,    // exchanges blocks in a manual region; only there (ops/control/manual.h)
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

// What the regions of an op mean (ops/control/control_flow.h, ops/control/manual.h).
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

  // Whether operands and results may be of the dtypes that only store numbers (IsStorage), if `infer` takes them: the op
  // moves or casts elements, or reads weights in a form of its own (matmul_q). Other ops refuse them, whatever `infer` says.
  bool takes_storage = false;
  // Result types from operand types and attributes. Errors read "k differs: a is …, b is …"; the
  // graph puts the op and its source line in front.
  absl::StatusOr<std::vector<Type>> (*infer)(const OpView& view) = nullptr;
  // For kControl, in place of `infer`: result types of a node from its regions (InferControl, ir/regions.h).
  // Errors: every requirement that the node does not meet.
  absl::StatusOr<std::vector<Type>> (*infer_regions)(const Node& node,
                                                     const std::vector<Type>& operands) = nullptr;
  // The sharding rule; kCompute rows have one.
  Rule (*rule)(const OpView& view) = nullptr;
  // The attributes of the same op on operands of other sizes: blocks, another batch. Null: only attributes
  // that are the result's shape change (AttrSpec::is_result_shape). Error: a dim that can have no other size.
  absl::StatusOr<Attrs> (*resize)(const OpView& view, const std::vector<Type>& operands) = nullptr;
  // For an op that only moves elements: the op as an exchange. If the exchange has more operands than the op, the extra
  // ones repeat the op's last operand. Along sharded dims the op runs as this exchange.
  Exchange (*exchange)(const OpView& view) = nullptr;
  // The op in terms of others, on blocks of a dim (ops/blockwise.h). Empty if it is better to gather this
  // number of blocks.
  std::vector<Value> (*blockwise)(const BlockwiseView& view) = nullptr;
  // The dim of the blockwise form, or nothing if the op has no such form with these attributes. Null: the dim
  // of the first operand whose letter is carried (ir/rule.h).
  std::optional<OperandDim> (*blockwise_at)(const Attrs& attrs) = nullptr;
  // For an op without `exchange` whose rule has windows: the attributes for operands that hold, along `dims`, their
  // windows, or blocks that need nothing beyond themselves (WindowedDim::is_own). `attrs`: those of the op on blocks.
  // The windows contain the fill beyond the ends of the tensor.
  Attrs (*on_windows)(const Attrs& attrs, std::span<const WindowedDim> dims) = nullptr;
  // Gradients of the operands, in order; invalid for "none". ZeroGradient (ir/gradients.h): the op is flat.
  // Null: the op has no gradient; a loss that depends on real operands through real results of the op is an
  // error.
  std::vector<Value> (*grad)(const GradView& view) = nullptr;
  // For kControl, in place of `grad`: the gradient of each operand of node `n`; invalid for "none". Appends to the
  // graph; may add results to the node. `needed`: per operand. Errors: the node has no gradient.
  absl::StatusOr<std::vector<Value>> (*grad_regions)(Graph& graph, int n,
                                                     const std::vector<Value>& result_grads,
                                                     const std::vector<bool>& needed) = nullptr;
  // Floating-point operations of the whole op; null: one per result element.
  double (*flops)(const OpView& view) = nullptr;
  // The kernel. Null in rows of the library whose kernels call oneDNN or OpenBLAS: these kernels are in a
  // room of their own, so that programs that only parse or compile need no such library. CpuKernelOf
  // (ops/kernels/blas/cpu_kernels.h) finds both.
  KernelFactory cpu = nullptr;
  // The kernel for GPUs of an op that works element by element: an expression in C++ of x, the element of the only
  // operand, or of a, b and c, those of several. T is the type that the first operand is computed in; {name} stands for
  // the attribute of that name. It may call the functions of ops/kernels/portable. Empty: the op has another kernel for
  // GPUs, or none.
  std::string_view scalar = {};
  // The spec from which `cpu` makes one kernel for all instances of the op: `spec` with leading dims
  // (StackDim). Null or nullopt: there is no such kernel; the instances run one by one.
  std::optional<KernelSpec> (*stack)(const KernelSpec& spec, const StackDims& dims) = nullptr;
  // The op does only a few operations per element that it reads or writes, so that it costs little if the
  // elements are in the cache. The order of a program is chosen for this (runtime/plan/arrange.h), and a sum may
  // be made before such ops (runtime/plan/reduce_early.h). Only for rows with `stack`.
  bool is_light = false;
  // A product over letters (matmul, convolution): it costs far more than moving its operands.
  bool is_product = false;
  // The kernel's result depends on where the block lies (iota, random, padding masks).
  bool reads_block = false;
  // Result r may be written over operand in_place[r] (same type, element by element); -1: never.
  std::vector<int> in_place = {};
  // The only result has the elements of the only operand, in the same order. Where possible, the result
  // shares the operand's memory, and the kernel does not run.
  bool is_view = false;
  // For the contract test and CheckOp: "f32[4,6], f32[6,8]", attributes after a ';': "f32[4,6]; dims=[1]".
  std::vector<std::string_view> samples = {};
  // Sample values of floating-point operands are drawn from [sample_low, sample_high), those of whole
  // numbers from [sample_int_low, sample_int_high).
  double sample_low = -1, sample_high = 1;
  int64_t sample_int_low = 1, sample_int_high = 7;
};

// Whether the node is a note for the compiler: its result is its first operand, and only the compiler reads its other
// operands and its attributes.
inline bool IsNote(const Node& node) { return node.row->kind == OpKind::kIdentity; }
// The operands that the results are computed from: the first one of a note, all of any other node.
inline std::span<const ValueId> ComputedFrom(const Node& node) {
  return {node.operands.data(), IsNote(node) ? 1 : node.operands.size()};
}

// `attrs` of a node of this row whose first result has `shape`; see AttrSpec::is_result_shape.
Attrs WithResultShape(const OpRow& row, Attrs attrs, const Shape& shape);
// The attributes of a node for operands of other types and a first result of `shape`. Errors: the row's
// resize's.
absl::StatusOr<Attrs> ResizedAttrs(const OpRow& row, const OpView& view, const std::vector<Type>& operands,
                                   const Shape& shape);

// Checks that a node of this row may have `given` operands. The error: "takes 1 operand, got 2."
absl::Status CheckOperandCount(const OpRow& row, size_t given);

// The row's `infer`. Errors, besides its own: a dtype that only stores numbers, unless the row takes it.
absl::StatusOr<std::vector<Type>> InferTypes(const OpRow& row, const std::vector<Type>& operands,
                                             const Attrs& attrs);

// Operand and result types of a node.
std::vector<Type> TypesOf(const Graph& graph, std::span<const ValueId> values);
std::vector<Type> GlobalTypesOf(const Graph& graph, std::span<const ValueId> values);
// The rule of a node of a global program. REQUIRES: its row has one.
Rule RuleOf(const Graph& graph, const Node& node);

// The row called `name`. Error: there is none (with the nearest name).
absl::StatusOr<const OpRow*> FindOp(std::string_view name);
// FindOp for names written in the code itself. REQUIRES: the row exists.
const OpRow& GetOp(std::string_view name);
// Every row at the moment: those of the library in the order of the families, then the registered ones in the
// order of registration. The returned list does not change when more rows are registered.
const std::vector<const OpRow*>& AllOps();

// Makes an op of a row from outside of the library:
//
//   MESHWORK_RETURN_IF_ERROR(RegisterOp({.name = "swiglu", .doc = "a sigmoid(a) b", .num_operands = 2, …}));
//   graph.Add("swiglu", {{a, b}}, {}, CallSite::Current());    // or AddOp (ir/builder.h), or in a text
//
// From then on FindOp, GetOp and AllOps know the op, and so does everything that uses them: Graph::Add, the
// text form, the compiler, Verify. A copy of the row, including the text that its string_views point to, is
// kept for the life of the process. Any thread may call RegisterOp and the functions above at any time.
// Errors, after which nothing has changed: a name that is taken, and those of CheckRow.
absl::Status RegisterOp(OpRow row);
// Checks what RegisterOp requires of a row. Errors: a name that the parser would not read as one; no doc,
// infer, rule, cpu or samples; a kind other than kCompute, or regions; impossible counts of operands and
// results; an attribute that the parser could not read; a sample that is no application of the row.
absl::Status CheckRow(const OpRow& row);

}  // namespace meshwork
