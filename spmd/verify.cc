#include "spmd/verify.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/status.h"
#include "ops/row.h"
#include "spmd/terms.h"

namespace meshwork {
namespace {

constexpr std::string_view kLemmaNames[] = {"argument", "rule", "sum",    "collective",
                                            "slice",    "mask", "reshape"};

// `graph` on `mesh`, if that is its mesh cut further.
std::optional<Graph> CutTo(Graph graph, const Mesh& mesh) {
  Mesh finer = graph.mesh();
  for (const Axis& axis : mesh.axes())
    if (absl::StatusOr<Mesh> cut = finer.Cut(axis.name); cut.ok()) finer = *std::move(cut);
  if (finer != mesh) return std::nullopt;
  graph.CutMesh(mesh);
  return graph;
}

// ---- Blocks.

// Whether a device finds, for each of its blocks by `finer`, all elements in its block by `coarser`, and the
// group that differs on the axes that dim d of `finer` has more holds nothing else: those axes come last, and
// the blocks nest.
bool Refines(const Layout& finer, const Layout& coarser, int d, const AxisList& by, const Shape& shape) {
  if (finer.IsStrided(d) || coarser.IsStrided(d)) return false;
  const AxisList& fine = finer.dim(d);
  const AxisList& coarse = coarser.dim(d);
  return fine.size() == coarse.size() + by.size() && std::equal(coarse.begin(), coarse.end(), fine.begin()) &&
         std::equal(by.begin(), by.end(), fine.end() - static_cast<int64_t>(by.size())) &&
         Nests(finer.mesh(), fine, coarse.size(), shape[d]);
}

// All dims but these lie alike, in plain layouts.
bool AgreeBut(const Layout& a, const Layout& b, std::initializer_list<int> dims) {
  if (a.is_strided() || b.is_strided() || a.rank() != b.rank()) return false;
  for (int d = 0; d < a.rank(); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end() && a.dim(d) != b.dim(d)) return false;
  return true;
}

// What is owed without what is owed over `axes` by `op`; nothing if that is not owed.
std::optional<PartialSet> Paid(const PartialSet& owed, const AxisList& axes, ReduceOp op) {
  PartialSet rest;
  size_t paid = 0;
  for (const Partial& partial : owed) {
    if (std::find(axes.begin(), axes.end(), partial.axis) == axes.end()) {
      rest.push_back(partial);
    } else {
      if (partial.op != op) return std::nullopt;
      ++paid;
    }
  }
  if (paid != axes.size()) return std::nullopt;
  return rest;
}

// How many leading axes cut `size` elements evenly, and leave what the others cut further; 0 if none do.
size_t EvenCut(const Mesh& mesh, const AxisList& axes, int64_t size) {
  int64_t blocks = 1;
  for (size_t n = 1; n <= axes.size(); ++n) {
    blocks *= mesh.axis(axes[n - 1]).size;
    if (size % blocks == 0 && Nests(mesh, axes, n, size)) return n;
  }
  return 0;
}

// The order in which a device holds the elements of a tensor: digits of the index, major to minor. A digit is
// cut by an axis, or counts what the device holds; where blocks are short, a whole factor is one digit.
struct Digit {
  int64_t size;
  AxisList axes;

  bool operator==(const Digit&) const = default;
};

std::vector<Digit> DigitsOf(const Layout& layout, const Shape& shape) {
  std::vector<Digit> digits;
  auto push = [&](int64_t size, AxisList axes) {
    if (size == 1 && axes.empty()) return;
    // Two digits that count, side by side, count as one.
    if (axes.empty() && !digits.empty() && digits.back().axes.empty()) digits.back().size *= size;
    else digits.push_back({size, std::move(axes)});
  };
  const Mesh& mesh = layout.mesh();
  for (int d = 0; d < layout.rank(); ++d) {
    for (const Factor& factor : layout.Factors(d, shape[d])) {
      int64_t size = factor.size;
      AxisList axes = factor.axes;
      for (size_t n = EvenCut(mesh, axes, size); n > 0; n = EvenCut(mesh, axes, size)) {
        for (size_t i = 0; i < n; ++i) {
          if (mesh.axis(axes[i]).size == 1) continue;
          push(mesh.axis(axes[i]).size, {axes[i]});
          size /= mesh.axis(axes[i]).size;
        }
        axes.erase(axes.begin(), axes.begin() + static_cast<int64_t>(n));
      }
      push(size, std::move(axes));
    }
  }
  return digits;
}

// ---- The walk.

constexpr int8_t kUnknown = -1;
// Per dim: the reduction whose identity stands in its padding.
using Padding = absl::InlinedVector<int8_t, 4>;

class Verifier {
 public:
  Verifier(const Graph& global, const Graph& local)
      : global_(global),
        local_(local),
        terms_(global),
        term_of_(local.values().size(), -1),
        padding_(local.values().size()) {
    proof_.claims.resize(local.values().size());
  }

  absl::StatusOr<Proof> Run() {
    for (size_t v = 0; v < local_.values().size(); ++v) RETURN_IF_ERROR(CheckBlock(static_cast<ValueId>(v)));
    RETURN_IF_ERROR(CheckArguments());
    for (size_t n = 0; n < local_.nodes().size(); ++n) {
      const Node& node = local_.nodes()[n];
      if (absl::Status status = CheckNode(node); !status.ok())
        return Annotate(status, fmt::format("Verify: {}: ", local_.Describe(static_cast<int>(n))));
    }
    RETURN_IF_ERROR(CheckUpdates());
    RETURN_IF_ERROR(CheckOutputs());
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
      if (have.layout->is_partial())
        return InvalidArgument("Verify: %{}: an argument lies whole, not as {}.", have.name,
                               have.layout->ToString());
      if (want.layout.has_value()) RETURN_IF_ERROR(CheckPin({*want.layout, want.modes}, have));
      Set(local_.arguments()[a].value, terms_.Of(global_.arguments()[a].value), Lemma::kArgument);
    }
    return absl::OkStatus();
  }

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
  absl::Status CheckResult(const std::string& what, ValueId want, ValueId have) const {
    if (terms_.Of(want) != term_of_[have])
      return InvalidArgument("Verify: {} is {}; the global program has {} there.", what,
                             terms_.Describe(term_of_[have]), terms_.Describe(terms_.Of(want)));
    if (LayoutOf(have).is_partial())
      return InvalidArgument("Verify: {} is {}; what is owed must be reduced first.", what,
                             LayoutOf(have).ToString());
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
      RETURN_IF_ERROR(CheckResult(what, found->second, value));
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
      RETURN_IF_ERROR(CheckResult(fmt::format("output \"{}\"", have.name), want.value, have.value));
    }
    return absl::OkStatus();
  }

  // ---- Nodes.

  absl::Status CheckNode(const Node& node) {
    const std::string_view op = node.row->name;
    if (op == "reshape") return CheckReshape(node);
    switch (node.row->kind) {
      case OpKind::kCompute: return CheckCompute(node);
      case OpKind::kIdentity: return InvalidArgument("it has no meaning in a local program.");
      case OpKind::kCollective:
      case OpKind::kLocal: break;
    }
    if (node.operands.size() != node.results.size())
      return InvalidArgument("it has {} operands and {} results.", node.operands.size(), node.results.size());
    for (size_t i = 0; i < node.operands.size(); ++i)
      RETURN_IF_ERROR(CheckMove(node, node.operands[i], node.results[i]));
    return absl::OkStatus();
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
      padding_[to] = padding_[from];
      for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims")) {
        if (d < 0 || d >= a.rank()) return InvalidArgument("dims names dim {} of {}.", d, a.ToString());
        padding_[to][static_cast<size_t>(d)] = static_cast<int8_t>(node.attrs.Get<ReduceOp>("op"));
      }
    }
    return absl::OkStatus();
  }

  static bool Moves(const Node& node, const Layout& a, const Layout& b, const Shape& shape) {
    const std::string_view op = node.row->name;
    if (op == "collective_permute") return Permutes(a, b, shape);
    if (op == "all_to_all_v") return OnlyMoves(a, b);
    const AxisList& axes = node.attrs.Get<AxisList>("axes");
    if (AxisSet(axes).ToList().size() != axes.size()) return false;  // an axis named twice
    if (op == "all_reduce") {
      const auto rest = Paid(a.partials(), axes, node.attrs.Get<ReduceOp>("op"));
      return rest.has_value() && b == a.WithPartials(*rest);
    }
    auto dim = [&](std::string_view name) {
      const int64_t d = node.attrs.Get<int64_t>(name);
      return d >= 0 && d < a.rank() ? static_cast<int>(d) : -1;
    };
    if (op == "all_to_all") {
      const int from = dim("from"), to = dim("to");
      return from >= 0 && to >= 0 && from != to && AgreeBut(a, b, {from, to}) &&
             a.partials() == b.partials() && Refines(a, b, from, axes, shape) &&
             Refines(b, a, to, axes, shape);
    }
    const int d = dim("dim");
    if (d < 0 || !AgreeBut(a, b, {d})) return false;
    if (op == "all_gather") return a.partials() == b.partials() && Refines(a, b, d, axes, shape);
    if (!Refines(b, a, d, axes, shape)) return false;
    if (op == "shard_slice") return a.partials() == b.partials();
    MESHWORK_CHECK(op == "reduce_scatter", "{} has no lemma", op);
    const auto rest = Paid(a.partials(), axes, node.attrs.Get<ReduceOp>("op"));
    return rest.has_value() && b.partials() == *rest;
  }

  // The devices that share a coordinate on every axis that does not cut a hold, between them, each element
  // once, and of what is owed the same term: b's axes that a owes over cut nothing.
  static bool OnlyMoves(const Layout& a, const Layout& b) {
    return !a.is_strided() && !b.is_strided() && a.partials() == b.partials();
  }

  // Every block of b is a block of a, whole: dims lie alike, or are cut evenly into as many.
  static bool Permutes(const Layout& a, const Layout& b, const Shape& shape) {
    if (!OnlyMoves(a, b)) return false;
    for (int d = 0; d < a.rank(); ++d) {
      if (a.dim(d) == b.dim(d)) continue;
      if (a.NumShards(d) != b.NumShards(d) || a.IsPadded(shape, d) || b.IsPadded(shape, d)) return false;
    }
    return true;
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
                      (size == 0 || DigitsOf(a, GlobalShape(from)) == DigitsOf(b, GlobalShape(to)));
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
      RETURN_IF_ERROR(FitsSum(node));
      Set(node.results[0], *sum, Lemma::kSum);
      return absl::OkStatus();
    }
    std::string of;
    for (TermId id : operands) of += (of.empty() ? "" : ", ") + terms_.Describe(id);
    return InvalidArgument("the global program has no {} of ({}) with these attributes.", node.row->name, of);
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
    ASSIGN_OR_RETURN(const std::vector<Type> whole, node.row->infer({operands, {}, node.attrs}));
    if (results != whole)
      return InvalidArgument("the result is part of a {}, not of a {}.", results[0].ToString(),
                             whole[0].ToString());
    return FitsRule(node.row->rule({operands, results, node.attrs}), node);
  }

  absl::Status FitsBlocks(const Node& global, const Node& local) {
    const std::vector<Type> operands = TypesOf(global_, global.operands);
    const std::vector<Type> results = TypesOf(global_, global.results);
    for (size_t r = 0; r < results.size(); ++r)
      if (local_.value(local.results[r]).global != results[r])
        return InvalidArgument("result {} is part of a {}, not of a {}.", r,
                               local_.value(local.results[r]).global.ToString(), results[r].ToString());
    ASSIGN_OR_RETURN(const Attrs attrs, ResizedAttrs(*local.row, {operands, results, global.attrs},
                                                     TypesOf(local_, local.operands),
                                                     local_.value(local.results[0]).type.shape));
    if (attrs != local.attrs) return InvalidArgument("its attributes are not those of the op on blocks.");
    return FitsRule(RuleOf(global_, global), local);
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
    RETURN_IF_ERROR(status);
    return FitsReductions(rule, cut, sharded, node);
  }

  // Whether a device may hold any elements along the letter, which are computed alike wherever they lie.
  static bool TakesAnyElements(const OpRow& row, const Letter& letter) {
    return !row.reads_block && !letter.must_divide;
  }

  static AxisList AxesOf(const FactorList& factors) {
    AxisList axes;
    for (const Factor& factor : factors) axes.insert(axes.end(), factor.axes.begin(), factor.axes.end());
    return axes;
  }

  // Dims of one letter are cut alike, different letters by different axes.
  absl::Status FitsLetter(const Rule& rule, int8_t l, const FactorList& factors,
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
        RETURN_IF_ERROR(IsMasked(rule, i, l, node.operands[i]));
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
      if (rule.operands[operand][d] != static_cast<int8_t>(letter) ||
          !LayoutOf(id).IsPadded(GlobalShape(id), d))
        continue;
      if (padding_[id][d] != static_cast<int8_t>(rule.reduce))
        return InvalidArgument(
            "it reduces over the padding of dim {} of {} {}, which is not masked by the "
            "identity of {}.",
            d, local_.value(id).global.ToString(), LayoutOf(id).ToString(), ReduceOpName(rule.reduce));
    }
    return absl::OkStatus();
  }

  const Graph& global_;
  const Graph& local_;
  GlobalTerms terms_;
  std::vector<TermId> term_of_;   // per local value
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
