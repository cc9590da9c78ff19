#include "meshwork/verify/verify.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/control/append_blockwise.h"
#include "meshwork/control/manual.h"
#include "meshwork/control/manual_body.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/verify/blocks.h"
#include "meshwork/verify/terms.h"
#include "meshwork/verify/windows.h"

namespace meshwork {
namespace {

constexpr std::string_view kLemmaNames[] = {"argument", "rule",    "sum",      "collective", "slice",
                                            "mask",     "reshape", "exchange", "body",       "rounding"};

// `graph` on `mesh`, if that is its mesh cut further.
std::optional<Graph> CutTo(Graph graph, const Mesh& mesh) {
  Mesh finer = graph.mesh();
  for (const Axis& axis : mesh.axes())
    if (absl::StatusOr<Mesh> cut = finer.Cut(axis.name); cut.ok()) finer = *std::move(cut);
  if (finer != mesh) return std::nullopt;
  graph.CutMesh(mesh);
  return graph;
}

// ---- The walk.

constexpr int8_t kUnknown = -1;
// Per dim: the reduction whose identity stands in its padding.
using Padding = absl::InlinedVector<int8_t, 4>;

class Verifier {
 public:
  // `may_owe`: of the body of a loop, per output whether it may be owed when the iteration is over, and by
  // what; kCarry: whether a carry may. Where the arguments of a body lie is not pinned.
  static constexpr size_t kCarry = static_cast<size_t>(-1);
  using MayOwe = std::function<bool(size_t output, const PartialSet& owed)>;
  Verifier(const Graph& global, const Graph& local, MayOwe may_owe = nullptr)
      : with_(AppendBlockwise(global, local)),
        global_(with_.has_value() ? with_->graph : global),
        local_(local),
        user_values_(global.values().size()),
        may_owe_(std::move(may_owe)),
        terms_(global_, with_.has_value() ? with_->same : decltype(with_->same)()),
        term_of_(local.values().size(), -1),
        windows_(local.values().size()),
        padding_(local.values().size()) {
    proof_.claims.resize(local.values().size());
  }

  absl::StatusOr<Proof> Run() {
    for (size_t v = 0; v < local_.values().size(); ++v)
      MESHWORK_RETURN_IF_ERROR(CheckBlock(static_cast<ValueId>(v)));
    MESHWORK_RETURN_IF_ERROR(CheckArguments());
    for (size_t n = 0; n < local_.nodes().size(); ++n) {
      const Node& node = local_.nodes()[n];
      if (absl::Status status = CheckNode(node); !status.ok())
        return Annotate(status, fmt::format("Verify: {}: ", local_.Describe(static_cast<int>(n))));
    }
    MESHWORK_RETURN_IF_ERROR(CheckUpdates());
    MESHWORK_RETURN_IF_ERROR(CheckOutputs());
    return std::move(proof_);
  }

 private:
  const Layout& LayoutOf(ValueId id) const { return *local_.value(id).layout; }
  const Shape& GlobalShape(ValueId id) const { return local_.value(id).global.shape; }

  absl::Status CheckBlock(ValueId id) const {
    const ValueInfo& info = local_.value(id);
    const std::string where = info.node < 0 ? "%" + info.name : local_.Describe(info.node);
    if (!info.layout.has_value())
      return InvalidArgument("Verify: {}: a value has no layout; the program is not local.", where);
    if (info.layout->mesh() != local_.mesh() || !info.layout->Fits(info.global.shape).ok() ||
        info.type != Type{info.global.dtype, info.layout->LocalShape(info.global.shape)})
      return InvalidArgument("Verify: {}: {} is not the block of {} {}.", where, info.type.ToString(),
                             info.global.ToString(), info.layout->ToString());
    return absl::OkStatus();
  }

  void Set(ValueId id, TermId term, Lemma lemma) {
    term_of_[id] = term;
    proof_.claims[id] = {terms_.GlobalSummands(term), lemma};
    // A step of a blockwise form is part of the op that it is the form of.
    for (SignedValue& part : proof_.claims[id].of)
      if (static_cast<size_t>(part.value) >= user_values_)
        part.value = with_->owners[part.value - user_values_];
    padding_[id].assign(static_cast<size_t>(LayoutOf(id).rank()), kUnknown);
  }

  // ---- Arguments and results.

  absl::Status CheckArguments() {
    if (global_.arguments().size() != local_.arguments().size())
      return InvalidArgument("Verify: the global program has {} arguments, the local one {}.",
                             global_.arguments().size(), local_.arguments().size());
    for (size_t a = 0; a < local_.arguments().size(); ++a) {
      const ValueInfo& want = global_.value(global_.arguments()[a].value);
      const ValueInfo& have = local_.value(local_.arguments()[a].value);
      if (want.name != have.name || global_.arguments()[a].is_variable != local_.arguments()[a].is_variable ||
          want.type != have.global)
        return InvalidArgument("Verify: argument {} is %{}: {}, the local program's is %{}: {}.", a,
                               want.name, want.type.ToString(), have.name, have.global.ToString());
      // A carry that owes the same before and after each iteration is the sum of what the devices hold,
      // always.
      if (have.layout->is_partial() &&
          !(local_.arguments()[a].is_variable && MayCarry(have.layout->partials())))
        return InvalidArgument("Verify: %{}: an argument lies whole, not as {}.", have.name,
                               have.layout->ToString());
      if (want.layout.has_value() && may_owe_ == nullptr)
        MESHWORK_RETURN_IF_ERROR(CheckPin({*want.layout, want.modes}, have));
      Set(local_.arguments()[a].value, terms_.Of(global_.arguments()[a].value), Lemma::kArgument);
    }
    return absl::OkStatus();
  }

  bool MayCarry(const PartialSet& owed) const { return may_owe_ != nullptr && may_owe_(kCarry, owed); }

  static absl::Status CheckPin(const LayoutPin& pin, const ValueInfo& have) {
    const Layout pinned = pin.layout.WithoutTrivialAxes(), lies = have.layout->WithoutTrivialAxes();
    for (int d = 0; d < pinned.rank(); ++d) {
      const int64_t size = have.global.shape[d];
      if (pin.mode(d) == DimMode::kLocked && pinned.Factors(d, size) != lies.Factors(d, size))
        return InvalidArgument("Verify: %{}: it is pinned as {} and lies as {}.", have.name, pin.ToString(),
                               have.layout->ToString());
    }
    return absl::OkStatus();
  }

  // `value` must be what the global program has there, whole.
  absl::Status CheckResult(const std::string& what, ValueId want, ValueId have, bool may_owe = false) const {
    if (windows_[have].has_value())
      return InvalidArgument("Verify: {} is windows of {}, not the tensor.", what,
                             terms_.Describe(term_of_[have]));
    if (terms_.Of(want) != term_of_[have])
      return InvalidArgument("Verify: {} is {}; the global program has {} there.", what,
                             terms_.Describe(term_of_[have]), terms_.Describe(terms_.Of(want)));
    if (LayoutOf(have).is_partial() && !may_owe)
      return InvalidArgument("Verify: {} is {}; what is owed must be reduced first.", what,
                             LayoutOf(have).ToString());
    if (IsWide(have) && !LayoutOf(have).is_partial())
      return InvalidArgument("Verify: {} is {}; it must be rounded to {}.", what,
                             local_.value(have).type.ToString(), DTypeName(TermDType(have)));
    return absl::OkStatus();
  }

  // The dtype of the term that the value is part of, and whether it is carried in another.
  DType TermDType(ValueId id) const {
    return global_.value(terms_.GlobalSummands(term_of_[id])[0].value).type.dtype;
  }
  bool IsWide(ValueId id) const { return local_.value(id).type.dtype != TermDType(id); }

  absl::Status CheckUpdates() const {
    std::map<int, ValueId> want, have;
    for (const VariableUpdate& update : global_.updates()) want[update.argument] = update.value;
    for (const VariableUpdate& update : local_.updates()) have[update.argument] = update.value;
    if (have.size() != local_.updates().size())
      return InvalidArgument("Verify: a variable is updated twice.");
    for (const auto& [argument, value] : have) {
      const std::string what = fmt::format("the new value of %{}", local_.argument_name(argument));
      const auto found = want.find(argument);
      if (found == want.end())
        return InvalidArgument("Verify: %{} is updated; the global program keeps it.",
                               local_.argument_name(argument));
      MESHWORK_RETURN_IF_ERROR(CheckResult(what, found->second, value, MayCarry(LayoutOf(value).partials())));
      const Layout& lies = LayoutOf(local_.arguments()[argument].value);
      if (LayoutOf(value).WithoutTrivialAxes() != lies.WithoutTrivialAxes())
        return InvalidArgument("Verify: {} is {}, the variable lies as {}.", what, LayoutOf(value).ToString(),
                               lies.ToString());
    }
    for (const auto& [argument, value] : want)
      if (have.find(argument) == have.end())
        return InvalidArgument("Verify: %{} is not updated; the global program updates it.",
                               local_.argument_name(argument));
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() const {
    if (global_.outputs().size() != local_.outputs().size())
      return InvalidArgument("Verify: the global program has {} outputs, the local one {}.",
                             global_.outputs().size(), local_.outputs().size());
    for (size_t o = 0; o < local_.outputs().size(); ++o) {
      const OutputInfo& want = global_.outputs()[o];
      const OutputInfo& have = local_.outputs()[o];
      if (want.name != have.name)
        return InvalidArgument("Verify: output {} is \"{}\", the local program's is \"{}\".", o, want.name,
                               have.name);
      const std::string what = have.name.empty() && may_owe_ != nullptr
                                   ? fmt::format("output {}", o)
                                   : fmt::format("output \"{}\"", have.name);
      const bool may_owe = may_owe_ != nullptr && may_owe_(o, LayoutOf(have.value).partials());
      MESHWORK_RETURN_IF_ERROR(CheckResult(what, want.value, have.value, may_owe));
    }
    return absl::OkStatus();
  }

  // ---- Nodes.

  absl::Status CheckNode(const Node& node) {
    const std::string_view op = node.row->name;
    const bool takes_windows = node.row->on_windows != nullptr || op == "mask_padding" || op == "widen";
    for (ValueId id : node.operands)
      if (windows_[id].has_value() && !takes_windows)
        return InvalidArgument("an operand is windows of {}; this op reads the tensor.",
                               terms_.Describe(term_of_[id]));
    if (node.row->collective == CollectiveKind::kExchange) return CheckExchanged(node);
    if (op == "reshape") return CheckReshape(node);
    if (op == "widen" || op == "narrow") return CheckRounding(node);
    switch (node.row->kind) {
      case OpKind::kCompute: return CheckCompute(node);
      case OpKind::kControl: return CheckControl(node);
      case OpKind::kIdentity:
      case OpKind::kDevice: return InvalidArgument("it has no meaning in a local program.");
      case OpKind::kCollective:
      case OpKind::kLocal: break;
    }
    if (node.operands.size() != node.results.size())
      return InvalidArgument("it has {} operands and {} results.", node.operands.size(), node.results.size());
    for (size_t i = 0; i < node.operands.size(); ++i)
      MESHWORK_RETURN_IF_ERROR(CheckMove(node, node.operands[i], node.results[i]));
    return absl::OkStatus();
  }

  // A block that is put together of what several devices hold: an op that moves elements, or the windows of
  // a tensor that an op reads.
  absl::Status CheckExchanged(const Node& node) {
    MESHWORK_RETURN_IF_ERROR(CheckExchange(local_, node));
    const Exchange exchange = Exchange::Of(node.attrs, static_cast<int>(node.operands.size()));
    const ValueId to = node.results[0];
    TermList operands;
    for (ValueId id : node.operands) operands.push_back(term_of_[id]);
    if (std::any_of(exchange.dims.begin(), exchange.dims.end(),
                    [](const ExchangeDim& dim) { return dim.is_windows(); })) {
      for (size_t d = 0; d < exchange.dims.size(); ++d)
        if (!exchange.dims[d].is_windows() && GlobalShape(to)[d] != GlobalShape(node.operands[0])[d])
          return InvalidArgument("dim {} of the result {} is not that of the operand.", d,
                                 local_.value(to).global.ToString());
      Set(to, operands[0], Lemma::kExchange);
      windows_[to] = exchange;
      return absl::OkStatus();
    }
    // Of what is carried in f32 the terms are bf16.
    const std::optional<TermId> moved = terms_.Moved(exchange, operands, GlobalTypesOf(local_, node.operands),
                                                     {TermDType(node.operands[0]), GlobalShape(to)});
    if (!moved.has_value())
      return InvalidArgument("the global program moves no elements of {} so.", terms_.Describe(operands[0]));
    MESHWORK_RETURN_IF_ERROR(FitsFill(exchange, operands, node));
    Set(to, *moved, Lemma::kExchange);
    return absl::OkStatus();
  }

  // Where it is filled in, the result owes a reduction of as many fill values as there are terms.
  absl::Status FitsFill(const Exchange& exchange, const TermList& operands, const Node& node) const {
    const ValueInfo& to = local_.value(node.results[0]);
    const bool fills =
        MovementOf(exchange, GlobalTypesOf(local_, node.operands), operands, to.global).fill.has_value();
    for (const Partial& partial : to.layout->partials())
      if (fills && !ReducesToItself(exchange.value, partial.op))
        return InvalidArgument("what it fills in, {}, is not the {} of as many.", exchange.value,
                               ReduceOpName(partial.op));
    return absl::OkStatus();
  }

  // bf16 in f32, and back. The value is the same, rounded or not.
  absl::Status CheckRounding(const Node& node) {
    const ValueId from = node.operands[0], to = node.results[0];
    const bool widens = node.row->name == "widen";
    const ValueInfo &a = local_.value(from), &b = local_.value(to);
    if (a.type.dtype != (widens ? BF16 : F32) || b.global != Type{widens ? F32 : BF16, a.global.shape} ||
        *a.layout != *b.layout)
      return InvalidArgument("it does not take {} {} to {} {}.", a.global.ToString(), a.layout->ToString(),
                             b.global.ToString(), b.layout->ToString());
    if (!widens && !IsWide(from))
      return InvalidArgument("the global program has {} in f32; to round that is another value.",
                             terms_.Describe(term_of_[from]));
    if (!widens && b.layout->is_partial())
      return InvalidArgument("the operand is {}; what is owed must be reduced before it is rounded.",
                             a.layout->ToString());
    Set(to, term_of_[from], Lemma::kRounding);
    windows_[to] = windows_[from];
    return absl::OkStatus();
  }

  // Whether the op runs on parts of bf16 that are carried in f32: all of them are, and the results owe.
  absl::StatusOr<bool> RunsWide(const Node& node) const {
    ValueId wide = kNoValue, narrow = kNoValue;
    for (ValueId id : node.operands) {
      if (IsWide(id)) wide = id;
      else if (local_.value(id).type.dtype == BF16) narrow = id;
    }
    if (wide == kNoValue) return false;
    if (narrow != kNoValue)
      return InvalidArgument("of its operands, {} is carried in f32 and {} is not.",
                             terms_.Describe(term_of_[wide]), terms_.Describe(term_of_[narrow]));
    for (ValueId id : node.results)
      if (!LayoutOf(id).is_partial())
        return InvalidArgument(
            "it reads {} in f32 and owes nothing; what is owed must be reduced and rounded.",
            terms_.Describe(term_of_[wide]));
    return true;
  }

  // The type of a local value, whole, that stands for one of `type`.
  static Type Carried(const Type& type, bool is_wide) {
    return {is_wide && type.dtype == BF16 ? F32 : type.dtype, type.shape};
  }

  // A collective, a slice or a mask: the result is the operand, laid out anew.
  absl::Status CheckMove(const Node& node, ValueId from, ValueId to) {
    const Layout& a = LayoutOf(from);
    const Layout& b = LayoutOf(to);
    if (local_.value(from).global != local_.value(to).global)
      return InvalidArgument("the operand is part of a {}, the result of a {}.",
                             local_.value(from).global.ToString(), local_.value(to).global.ToString());
    const bool is_mask = node.row->name == "mask_padding";
    if (is_mask ? a != b : !Moves(node, a, b, GlobalShape(from)))
      return InvalidArgument("it does not take {} {} to {}.", local_.value(from).global.ToString(),
                             a.ToString(), b.ToString());
    Set(to, term_of_[from],
        is_mask                                 ? Lemma::kMask
        : node.row->kind == OpKind::kCollective ? Lemma::kCollective
                                                : Lemma::kSlice);
    if (is_mask) {
      windows_[to] = windows_[from];
      padding_[to] = padding_[from];
      for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims")) {
        if (d < 0 || d >= a.rank()) return InvalidArgument("dims names dim {} of {}.", d, a.ToString());
        padding_[to][static_cast<size_t>(d)] = static_cast<int8_t>(node.attrs.Get<ReduceOp>("op"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckReshape(const Node& node) {
    const ValueId from = node.operands[0], to = node.results[0];
    const Layout& a = LayoutOf(from);
    const Layout& b = LayoutOf(to);
    const Shape& shape = local_.value(to).type.shape;
    const auto& asked = node.attrs.Get<std::vector<int64_t>>("shape");
    if (local_.value(from).type.dtype != local_.value(to).type.dtype ||
        !std::equal(asked.begin(), asked.end(), shape.begin(), shape.end()))
      return InvalidArgument("its result is {}, not the shape it is asked for.",
                             local_.value(to).type.ToString());
    const int64_t size = NumElements(GlobalShape(from));
    const bool same = size == NumElements(GlobalShape(to)) && a.partials() == b.partials() &&
                      HoldAlike(a, GlobalShape(from), b, GlobalShape(to));
    if (!same)
      return InvalidArgument("read as {} {}, a block of {} {} is not that block.",
                             local_.value(to).global.ToString(), b.ToString(),
                             local_.value(from).global.ToString(), a.ToString());
    Set(to, terms_.Reshaped(term_of_[from], GlobalShape(to)), Lemma::kReshape);
    if (b.Flat() == a && b.FactorShape(GlobalShape(to)) == GlobalShape(from)) JoinPadding(from, to);
    return absl::OkStatus();
  }

  // Each dim of `to` is put together from dims of `from`: its padding is what they have of it.
  void JoinPadding(ValueId from, ValueId to) {
    const Layout& b = LayoutOf(to);
    int f = 0;
    for (int d = 0; d < b.rank(); ++d) {
      Padding have;
      for (size_t i = 0; i < b.Factors(d, GlobalShape(to)[d]).size(); ++i, ++f)
        if (LayoutOf(from).IsPadded(GlobalShape(from), f)) have.push_back(padding_[from][f]);
      const bool is_one = std::all_of(have.begin(), have.end(), [&](int8_t op) { return op == have[0]; });
      if (!have.empty() && is_one) padding_[to][d] = have[0];
    }
  }

  // An op of the global program, on blocks, or a sum that it adds up otherwise.
  absl::Status CheckCompute(const Node& node) {
    TermList operands;
    for (ValueId id : node.operands) operands.push_back(term_of_[id]);
    absl::Status status = absl::OkStatus();
    bool is_found = false, is_there = false;
    terms_.ForEachNode(*node.row, operands, node.attrs, [&](const Node& global) {
      if (is_found) return;
      absl::Status fits = FitsBlocks(global, node);
      is_found = fits.ok();
      is_there = true;
      if (!fits.ok()) {
        status = std::move(fits);
        return;
      }
      const TermList results = terms_.Of(global.results);
      for (size_t r = 0; r < results.size(); ++r) Set(node.results[r], results[r], Lemma::kRule);
    });
    if (is_found) return absl::OkStatus();
    if (is_there) return status;
    if (const std::optional<TermId> sum = SumOf(node, operands); sum.has_value()) {
      MESHWORK_RETURN_IF_ERROR(FitsSum(node));
      Set(node.results[0], *sum, Lemma::kSum);
      return absl::OkStatus();
    }
    std::string of;
    for (TermId id : operands) of += (of.empty() ? "" : ", ") + terms_.Describe(id);
    return InvalidArgument("the global program has no {} of ({}) with these attributes.", node.row->name, of);
  }

  // ---- Loops and branches.

  // A loop or a branch of the global program, on the same values, whose bodies compute what those do: by
  // induction over the iterations, for a carry lies alike before and after each.
  absl::Status CheckControl(const Node& node) {
    TermList operands;
    for (ValueId id : node.operands) {
      if (IsWide(id))
        return InvalidArgument("{} is carried in f32; it must be rounded first.",
                               terms_.Describe(term_of_[id]));
      operands.push_back(term_of_[id]);
    }
    absl::Status status = InvalidArgument("the global program has no {} of these operands.", node.row->name);
    terms_.ForEachNode(*node.row, operands, node.attrs, [&](const Node& global) {
      if (status.ok() || global.attrs != node.attrs || global.results.size() != node.results.size()) return;
      status = FitsControl(global, node);
      if (!status.ok()) return;
      const TermList results = terms_.Of(global.results);
      for (size_t r = 0; r < results.size(); ++r) Set(node.results[r], results[r], Lemma::kBody);
    });
    return status;
  }

  absl::Status FitsControl(const Node& global, const Node& local) const {
    const bool is_scan = local.row->control == ControlKind::kScan;
    const bool is_if = local.row->control == ControlKind::kIf;
    if (is_if && LayoutOf(local.operands[0]).is_partial())
      return InvalidArgument("its predicate is {}; what is owed must be reduced first.",
                             LayoutOf(local.operands[0]).ToString());
    if (IsManual(local)) {
      MESHWORK_RETURN_IF_ERROR(FitsManual(global, local));
      return FitsTypes(global, local);
    }
    for (size_t r = 0; r < local.regions.size(); ++r) {
      const Graph& body = *local.regions[r];
      const size_t stacked =
          is_scan ? body.outputs().size() - static_cast<size_t>(local.attrs.Get<int64_t>("sums")) : 0;
      // Iterations are added up alike on every device: a sum of what is owed owes the same sum.
      const auto may_owe = [&](size_t output, const PartialSet& owed) {
        if (output == kCarry) return CarryMayOwe(local, owed);
        return owed.empty() || (is_scan && (output < stacked || owed[0].op == ReduceOp::kSum));
      };
      if (absl::Status status = Verifier(*global.regions[r], body, may_owe).Run().status(); !status.ok())
        return Annotate(status, "its body: ");
      MESHWORK_RETURN_IF_ERROR(FitsArguments(local, body, is_if ? 1 : 0));
      MESHWORK_RETURN_IF_ERROR(FitsResults(local, body, stacked));
    }
    return FitsTypes(global, local);
  }

  // What a user wrote for each device is there as it was written, and is given the blocks that it wants.
  absl::Status FitsManual(const Node& global, const Node& local) const {
    const Graph& body = *local.regions[0];
    MESHWORK_RETURN_IF_ERROR(CheckManualIsGlobal(global));
    MESHWORK_RETURN_IF_ERROR(FitsArguments(local, body, 0));
    MESHWORK_RETURN_IF_ERROR(FitsResults(local, body, /*stacked=*/0));
    const std::string difference = FirstDifference(ManualBody(*global.regions[0]), body);
    if (!difference.empty()) return InvalidArgument("its body is not what was written: {}", difference);
    return absl::OkStatus();
  }

  absl::Status FitsTypes(const Node& global, const Node& local) const {
    for (size_t r = 0; r < local.results.size(); ++r) {
      const Type &have = local_.value(local.results[r]).global, &want = global_.value(global.results[r]).type;
      const bool may_be_wide = LayoutOf(local.results[r]).is_partial();
      if (have != want && !(may_be_wide && have == Carried(want, /*is_wide=*/true)))
        return InvalidArgument("result {} is part of a {}, not of a {}.", r, have.ToString(),
                               want.ToString());
    }
    return absl::OkStatus();
  }

  // The arguments of a body lie as the operands do, without the dim that slices are taken along, which is
  // whole.
  absl::Status FitsArguments(const Node& node, const Graph& body, size_t first) const {
    size_t carries = 0;
    for (const Argument& argument : body.arguments()) carries += argument.is_variable ? 1 : 0;
    const auto slices =
        node.row->control == ControlKind::kScan ? static_cast<size_t>(node.attrs.Get<int64_t>("slices")) : 0;
    for (size_t a = 0; a < body.arguments().size(); ++a) {
      const Layout& argument = *body.value(body.arguments()[a].value).layout;
      const Layout& operand = LayoutOf(node.operands[a + first]);
      const bool is_slice = a >= carries && a < carries + slices;
      if (!LiesAlike(operand, argument, is_slice))
        return InvalidArgument("argument %{} of its body lies as {}, the operand as {}.",
                               body.argument_name(static_cast<int>(a)), argument.ToString(),
                               operand.ToString());
    }
    return absl::OkStatus();
  }

  absl::Status FitsResults(const Node& node, const Graph& body, size_t stacked) const {
    size_t carries = 0;
    for (const Argument& argument : body.arguments()) carries += argument.is_variable ? 1 : 0;
    for (size_t r = 0; r < node.results.size(); ++r) {
      const ValueId inside = r < carries ? body.arguments()[r].value : body.outputs()[r - carries].value;
      const bool is_stack = r >= carries && r - carries < stacked;
      const Layout& layout = *body.value(inside).layout;
      if (!LiesAlike(LayoutOf(node.results[r]), layout, is_stack) ||
          local_.value(node.results[r]).type.dtype != body.value(inside).type.dtype)
        return InvalidArgument(
            "result {} is {} {}; its body leaves {} {}.", r, local_.value(node.results[r]).type.ToString(),
            LayoutOf(node.results[r]).ToString(), body.value(inside).type.ToString(), layout.ToString());
    }
    return absl::OkStatus();
  }

  // Whether dim d of `inside`, or d + 1 of `outside` if that has a dim more, which is whole, lie alike.
  static bool LiesAlike(const Layout& outside, const Layout& inside, bool has_more) {
    const int more = has_more ? 1 : 0;
    if (outside.rank() != inside.rank() + more || outside.partials() != inside.partials()) return false;
    const Layout out = outside.WithoutTrivialAxes(), in = inside.WithoutTrivialAxes();
    if (has_more && out.Factors(0, 1) != FactorList{Factor{1, {}}}) return false;
    for (int d = 0; d < in.rank(); ++d)
      if (out.Factors(d + more, 1) != in.Factors(d, 1)) return false;
    return true;
  }

  std::optional<TermId> SumOf(const Node& node, const TermList& operands) {
    const auto summands = SummandsOf(*node.row, operands);
    if (!summands.has_value()) return std::nullopt;
    return terms_.Sum(*summands, GlobalShape(node.results[0]));
  }

  // The blocks of a sum that is no node of the global program are added as those of one that is.
  absl::Status FitsSum(const Node& node) const {
    const std::vector<Type> operands = GlobalTypesOf(local_, node.operands);
    const std::vector<Type> results = GlobalTypesOf(local_, node.results);
    MESHWORK_RETURN_IF_ERROR(RunsWide(node).status());
    for (ValueId id : node.operands)
      if (TermDType(id) != TermDType(node.operands[0]))
        return InvalidArgument("it adds {} and {}.", DTypeName(TermDType(node.operands[0])),
                               DTypeName(TermDType(id)));
    MESHWORK_ASSIGN_OR_RETURN(const std::vector<Type> whole, node.row->infer({operands, {}, node.attrs}));
    if (results != whole)
      return InvalidArgument("the result is part of a {}, not of a {}.", results[0].ToString(),
                             whole[0].ToString());
    return FitsRule(node.row->rule({operands, results, node.attrs}), node);
  }

  absl::Status FitsBlocks(const Node& global, const Node& local) {
    const std::vector<Type> operands = TypesOf(global_, global.operands);
    const std::vector<Type> results = TypesOf(global_, global.results);
    MESHWORK_ASSIGN_OR_RETURN(const bool is_wide, RunsWide(local));
    for (size_t r = 0; r < results.size(); ++r)
      if (local_.value(local.results[r]).global != Carried(results[r], is_wide))
        return InvalidArgument("result {} is part of a {}, not of a {}.", r,
                               local_.value(local.results[r]).global.ToString(), results[r].ToString());
    const Rule rule = RuleOf(global_, global);
    const std::vector<WindowedDim> windows = WindowsOn(local_, local, rule, operands);
    if (!windows.empty() && local.row->on_windows == nullptr)
      return InvalidArgument("it moves elements of a dim that is sharded; that is an exchange.");
    MESHWORK_ASSIGN_OR_RETURN(Attrs attrs, ResizedAttrs(*local.row, {operands, results, global.attrs},
                                                        TypesOf(local_, local.operands),
                                                        local_.value(local.results[0]).type.shape));
    for (size_t o = 0; o < operands.size(); ++o)
      MESHWORK_RETURN_IF_ERROR(HoldsWindows(local_, local, rule, o, windows_[local.operands[o]], windows));
    if (!windows.empty()) attrs = local.row->on_windows(attrs, windows);
    if (attrs != local.attrs) return InvalidArgument("its attributes are not those of the op on blocks.");
    return FitsRule(rule, local);
  }

  absl::Status FitsRule(const Rule& rule, const Node& node) const {
    std::vector<std::optional<FactorList>> cut(rule.letters.size());
    AxisSet sharded;
    absl::Status status = absl::OkStatus();
    auto fit = [&](const std::vector<LetterList>& lists, std::span<const ValueId> values) {
      for (size_t i = 0; i < lists.size(); ++i) {
        const Layout& layout = LayoutOf(values[i]);
        for (int d = 0; d < static_cast<int>(lists[i].size()) && status.ok(); ++d) {
          const FactorList factors = layout.Factors(d, 1);
          if (lists[i][d] != kNoLetter) {
            if (factors.size() > 1 && !TakesAnyElements(*node.row, rule.letters[lists[i][d]]))
              status = InvalidArgument("{} is strided, and it works on blocks along dim {}.",
                                       layout.ToString(), d);
            else status = FitsLetter(rule, lists[i][d], factors, cut, sharded);
          } else if (local_.mesh().GroupSize(AxesOf(factors)) != 1) {
            status =
                InvalidArgument("dim {} of {} must be whole for {}.", d, layout.ToString(), rule.ToString());
          }
        }
      }
    };
    fit(rule.operands, node.operands);
    fit(rule.results, node.results);
    MESHWORK_RETURN_IF_ERROR(status);
    return FitsReductions(rule, cut, sharded, node);
  }

  // Whether a device may hold any elements along the letter, which are computed alike wherever they lie.
  static bool TakesAnyElements(const OpRow& row, const Letter& letter) {
    return !row.reads_block && !letter.must_divide && !letter.windowed;
  }

  static AxisList AxesOf(const FactorList& factors) {
    AxisList axes;
    for (const Factor& factor : factors) axes.insert(axes.end(), factor.axes.begin(), factor.axes.end());
    return axes;
  }

  // Dims of one letter are cut alike, different letters by different axes.
  absl::Status FitsLetter(const Rule& rule, int l, const FactorList& factors,
                          std::vector<std::optional<FactorList>>& cut, AxisSet& sharded) const {
    const Letter& letter = rule.letters[l];
    const Mesh& mesh = local_.mesh();
    const AxisList axes = AxesOf(factors);
    if (cut[l].has_value()) {
      if (*cut[l] == factors) return absl::OkStatus();
      auto text = [&](const FactorList& cut) {
        return cut.size() > 1 ? Layout::Strided(mesh, {cut}).ToString() : mesh.AxesToString(cut[0].axes);
      };
      return InvalidArgument("letter {} of {} lies on {} and on {}.", letter.name, rule.ToString(),
                             text(*cut[l]), text(factors));
    }
    cut[l] = factors;
    const int64_t shards = mesh.GroupSize(axes);
    if ((letter.whole && shards != 1) || (letter.must_divide && letter.size % shards != 0))
      return InvalidArgument("letter {} of {} cannot be cut by {}.", letter.name, rule.ToString(),
                             mesh.AxesToString(axes));
    if (sharded.Intersects(AxisSet(axes)))
      return InvalidArgument("two letters of {} lie on {}.", rule.ToString(), mesh.AxesToString(axes));
    sharded = sharded.Union(AxisSet(axes));
    return absl::OkStatus();
  }

  // What the result owes is what its operands did, passed on, and what reduced letters leave.
  absl::Status FitsReductions(const Rule& rule, const std::vector<std::optional<FactorList>>& cut,
                              AxisSet sharded, const Node& node) const {
    absl::InlinedVector<PartialSet, 4> sets;
    for (ValueId id : node.operands) sets.push_back(LayoutOf(id).partials());
    const std::optional<PartialSet> passed = rule.PassOn(sets, sharded);
    if (!passed.has_value()) return InvalidArgument("it does not pass on what its operands owe.");
    PartialSet owed = *passed;
    for (size_t l = 0; l < rule.letters.size(); ++l) {
      if (!rule.letters[l].reduced || !cut[l].has_value()) continue;
      for (int axis : AxesOf(*cut[l])) owed.push_back({axis, rule.reduce});
      for (size_t i = 0; i < node.operands.size(); ++i)
        MESHWORK_RETURN_IF_ERROR(IsMasked(rule, i, l, node.operands[i]));
    }
    for (const Partial& partial : owed)
      if (partial.op != owed.front().op)
        return InvalidArgument("the result would owe a {} and a {}, which do not commute.",
                               ReduceOpName(owed.front().op), ReduceOpName(partial.op));
    std::sort(owed.begin(), owed.end(), [](const Partial& a, const Partial& b) { return a.axis < b.axis; });
    for (ValueId id : node.results) {
      const Layout& layout = LayoutOf(id);
      if (layout.partials() != owed)
        return InvalidArgument("the result owes what {} says, not what {} does.",
                               Layout(local_.mesh(), {}, owed).ToString(), layout.ToString());
    }
    return absl::OkStatus();
  }

  absl::Status IsMasked(const Rule& rule, size_t operand, size_t letter, ValueId id) const {
    for (int d = 0; d < static_cast<int>(rule.operands[operand].size()); ++d) {
      if (rule.operands[operand][d] != static_cast<int>(letter) || !LayoutOf(id).IsPadded(GlobalShape(id), d))
        continue;
      if (padding_[id][d] != static_cast<int8_t>(rule.reduce))
        return InvalidArgument(
            "it reduces over the padding of dim {} of {} {}, which is not masked by the "
            "identity of {}.",
            d, local_.value(id).global.ToString(), LayoutOf(id).ToString(), ReduceOpName(rule.reduce));
    }
    return absl::OkStatus();
  }

  const std::optional<WithBlockwise> with_;
  const Graph& global_;  // with the blockwise forms of ops, if there are any
  const Graph& local_;
  const size_t user_values_;  // of the program that was given
  const MayOwe may_owe_;
  GlobalTerms terms_;
  std::vector<TermId> term_of_;  // per local value
  // Per local value: what it takes of the tensor that is its term, if it is windows of that.
  std::vector<std::optional<Exchange>> windows_;
  std::vector<Padding> padding_;  // per local value
  Proof proof_;
};

}  // namespace

std::string_view LemmaName(Lemma lemma) { return kLemmaNames[static_cast<int>(lemma)]; }

absl::StatusOr<Proof> Verify(const Graph& global, const Graph& local) {
  if (global.mesh() == local.mesh()) return Verifier(global, local).Run();
  const std::optional<Graph> cut = CutTo(global, local.mesh());
  if (!cut.has_value())
    return InvalidArgument("Verify: the global program is on mesh {}, the local one on {}.",
                           global.mesh().ToString(), local.mesh().ToString());
  return Verifier(*cut, local).Run();
}

}  // namespace meshwork
