#include "meshwork/verify/verify.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/verify/claims.h"
#include "meshwork/verify/compute.h"
#include "meshwork/verify/control.h"
#include "meshwork/verify/moves.h"

namespace meshwork {
namespace {

constexpr std::string_view kLemmaNames[] = {"argument", "rule",     "sum",  "collective", "slice", "mask",
                                            "reshape",  "exchange", "body", "rounding",   "empty"};

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

class Verifier {
 public:
  // `may_owe`: for the body of a loop, whose arguments have no pins.
  Verifier(const Graph& global, const Graph& local, const VerifyOptions& options,
           BodyMayOwe may_owe = nullptr)
      : claims_(global, local, options),
        global_(claims_.global()),
        local_(local),
        may_owe_(std::move(may_owe)) {}

  absl::StatusOr<Proof> Run() {
    for (size_t v = 0; v < local_.values().size(); ++v)
      MESHWORK_RETURN_IF_ERROR(CheckBlock(static_cast<ValueId>(v)));
    MESHWORK_RETURN_IF_ERROR(CheckArguments());
    for (size_t n = 0; n < local_.nodes().size(); ++n) {
      const Node& node = local_.nodes()[n];
      if (absl::Status status = CheckNode(node); !status.ok() && !GivesNoElements(node))
        return Annotate(status, fmt::format("Verify: {}: ", local_.Describe(static_cast<int>(n))));
    }
    MESHWORK_RETURN_IF_ERROR(CheckUpdates());
    MESHWORK_RETURN_IF_ERROR(CheckOutputs());
    return std::move(claims_).Finish();
  }

 private:
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
      // A carry that owes the same reduction before and after each iteration is always the sum of the devices' values.
      if (have.layout->is_partial() &&
          !(local_.arguments()[a].is_variable && MayCarry(have.layout->partials())))
        return InvalidArgument("Verify: %{}: an argument lies whole, not as {}.", have.name,
                               have.layout->ToString());
      if (want.layout.has_value() && may_owe_ == nullptr)
        MESHWORK_RETURN_IF_ERROR(CheckPin({*want.layout, want.modes}, have));
      claims_.Set(local_.arguments()[a].value, claims_.terms().Of(global_.arguments()[a].value),
                  Lemma::kArgument);
    }
    return absl::OkStatus();
  }

  bool MayCarry(const PartialSet& owed) const { return may_owe_ != nullptr && may_owe_(kAnyCarry, owed); }

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
    if (claims_.windows(have).has_value())
      return InvalidArgument("Verify: {} is windows of {}, not the tensor.", what, claims_.Describe(have));
    if (claims_.terms().Of(want) != claims_.TermOf(have))
      return InvalidArgument("Verify: {} is {}; the global program has {} there.", what,
                             claims_.Describe(have), claims_.terms().Describe(claims_.terms().Of(want)));
    if (claims_.LayoutOf(have).is_partial() && !may_owe)
      return InvalidArgument("Verify: {} is {}; what is owed must be reduced first.", what,
                             claims_.LayoutOf(have).ToString());
    if (claims_.IsWide(have) && !claims_.LayoutOf(have).is_partial())
      return InvalidArgument("Verify: {} is {}; it must be rounded to {}.", what,
                             local_.value(have).type.ToString(), DTypeName(claims_.TermDType(have)));
    return absl::OkStatus();
  }

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
      MESHWORK_RETURN_IF_ERROR(
          CheckResult(what, found->second, value, MayCarry(claims_.LayoutOf(value).partials())));
      const Layout& lies = claims_.LayoutOf(local_.arguments()[argument].value);
      if (claims_.LayoutOf(value).WithoutTrivialAxes() != lies.WithoutTrivialAxes())
        return InvalidArgument("Verify: {} is {}, the variable lies as {}.", what,
                               claims_.LayoutOf(value).ToString(), lies.ToString());
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
      const bool may_owe = may_owe_ != nullptr && may_owe_(o, claims_.LayoutOf(have.value).partials());
      MESHWORK_RETURN_IF_ERROR(CheckResult(what, want.value, have.value, may_owe));
    }
    return absl::OkStatus();
  }

  // ---- Nodes.

  absl::Status CheckNode(const Node& node) {
    const std::string_view op = node.row->name;
    const bool takes_windows = node.row->on_windows != nullptr || op == "mask_padding" || op == "widen";
    for (ValueId id : node.operands)
      if (claims_.windows(id).has_value() && !takes_windows)
        return InvalidArgument("an operand is windows of {}; this op reads the tensor.",
                               claims_.Describe(id));
    if (node.row->collective == CollectiveKind::kExchange) return CheckExchanged(claims_, node);
    if (op == "reshape") return CheckReshape(claims_, node);
    if (op == "widen" || op == "narrow") return CheckRounding(claims_, node);
    switch (node.row->kind) {
      case OpKind::kCompute: return CheckCompute(claims_, node);
      case OpKind::kControl: return CheckControl(claims_, node, VerifyAsBody);
      case OpKind::kIdentity:
      case OpKind::kDevice: return InvalidArgument("it has no meaning in a local program.");
      case OpKind::kCollective:
      case OpKind::kLocal: break;
    }
    if (node.operands.size() != node.results.size())
      return InvalidArgument("it has {} operands and {} results.", node.operands.size(), node.results.size());
    for (size_t i = 0; i < node.operands.size(); ++i)
      MESHWORK_RETURN_IF_ERROR(CheckMove(claims_, node, node.operands[i], node.results[i]));
    return absl::OkStatus();
  }

  // Whether no result has elements; then the results are claimed to be the term of all empty tensors of their types.
  // False for loops and branches: their bodies must be proven anyway, because they may have other faults.
  bool GivesNoElements(const Node& node) {
    if (node.row->kind == OpKind::kControl || node.row->kind == OpKind::kIdentity ||
        node.row->kind == OpKind::kDevice)
      return false;
    for (ValueId id : node.results) {
      const std::optional<TermId> empty = claims_.terms().Empty(local_.value(id).global);
      if (!empty.has_value()) return false;
      claims_.Set(id, *empty, Lemma::kEmpty);
      claims_.windows(id).reset();
    }
    return true;
  }

  static absl::Status VerifyAsBody(const Graph& global, const Graph& local, const VerifyOptions& options,
                                   const BodyMayOwe& may_owe) {
    return Verifier(global, local, options, may_owe).Run().status();
  }

  Claims claims_;
  const Graph& global_;  // with the blockwise forms of ops, if there are any
  const Graph& local_;
  const BodyMayOwe may_owe_;
};

}  // namespace

std::string_view LemmaName(Lemma lemma) { return kLemmaNames[static_cast<int>(lemma)]; }

absl::StatusOr<Proof> Verify(const Graph& global, const Graph& local, const VerifyOptions& options) {
  if (global.mesh() == local.mesh()) return Verifier(global, local, options).Run();
  const std::optional<Graph> cut = CutTo(global, local.mesh());
  if (!cut.has_value())
    return InvalidArgument("Verify: the global program is on mesh {}, the local one on {}.",
                           global.mesh().ToString(), local.mesh().ToString());
  return Verifier(*cut, local, options).Run();
}

}  // namespace meshwork
