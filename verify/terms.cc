#include "meshwork/verify/terms.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/verify/windows.h"

namespace meshwork {
namespace {

// Sums that take more expansions to compare count as different terms.
constexpr int kMostExpansions = 512;
constexpr int64_t kMostTimes = int64_t{1} << 40;

uint64_t Mix(uint64_t hash, uint64_t x) { return (hash ^ x) * 0x9e3779b97f4a7c15u + (hash >> 29); }

// Finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014): so that sums of hashes differ.
uint64_t Scatter(uint64_t x) {
  x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The largest prime below 2^64. Modulo a power of two, a hash that is added to itself often enough would
// become 0.
constexpr uint64_t kPrime = ~uint64_t{0} - 58;
// Modulo kPrime.
uint64_t AddHashes(uint64_t a, uint64_t b) { return a >= kPrime - b ? a - (kPrime - b) : a + b; }

struct AttrHash {
  uint64_t operator()(bool v) const { return v ? 1 : 2; }
  uint64_t operator()(int64_t v) const { return static_cast<uint64_t>(v); }
  uint64_t operator()(double v) const { return std::bit_cast<uint64_t>(v); }
  uint64_t operator()(DType v) const { return static_cast<uint64_t>(v); }
  uint64_t operator()(ReduceOp v) const { return static_cast<uint64_t>(v); }
  uint64_t operator()(const LayoutPin&) const { return 0; }
  template <typename List>
  uint64_t operator()(const List& list) const {
    uint64_t hash = list.size();
    for (auto x : list) hash = Mix(hash, static_cast<uint64_t>(x));
    return hash;
  }
};

// Whether two bodies give the same results from the same arguments.
bool GiveTheSame(const Graph& a, const Graph& b) {
  const size_t arguments = a.arguments().size(), outputs = a.outputs().size();
  if (arguments != b.arguments().size() || outputs != b.outputs().size()) return false;
  Graph both(a.mesh());
  std::vector<ValueId> in_a(a.values().size(), kNoValue), in_b(b.values().size(), kNoValue);
  for (size_t i = 0; i < arguments; ++i) {
    const Argument &x = a.arguments()[i], &y = b.arguments()[i];
    const ValueInfo& info = a.value(x.value);
    if (x.is_variable != y.is_variable || info.type != b.value(y.value).type) return false;
    in_a[x.value] = in_b[y.value] = both.AddArgument(info, x.is_variable);
  }
  for (const Node& node : a.nodes()) CopyNode(a, node, both, in_a);
  for (const Node& node : b.nodes()) CopyNode(b, node, both, in_b);
  const GlobalTerms terms(both);
  for (size_t o = 0; o < outputs; ++o)
    if (terms.Of(in_a[a.outputs()[o].value]) != terms.Of(in_b[b.outputs()[o].value])) return false;
  // A carry that is not updated stays as it is.
  auto next = [&](const Graph& body, const std::vector<ValueId>& map) {
    std::vector<TermId> values;
    for (const Argument& argument : body.arguments()) values.push_back(terms.Of(map[argument.value]));
    for (const VariableUpdate& update : body.updates()) values[update.argument] = terms.Of(map[update.value]);
    return values;
  };
  return next(a, in_a) == next(b, in_b);
}

// Whether the bodies of two nodes of one row with the same attributes give the same results; true for nodes
// without bodies. Bodies of manual regions are compared as they are written.
bool BodiesGiveTheSame(const Node& a, const Node& b) {
  if (SameRegions(a, b)) return true;
  return !IsManual(a) && std::equal(a.regions.begin(), a.regions.end(), b.regions.begin(),
                                    [](const auto& x, const auto& y) { return GiveTheSame(*x, *y); });
}

}  // namespace

std::optional<SummandList> SummandsOf(const OpRow& row, std::span<const TermId> operands) {
  if (row.name == "add") return SummandList{{operands[0], false}, {operands[1], false}};
  if (row.name == "sub") return SummandList{{operands[0], false}, {operands[1], true}};
  if (row.name == "neg") return SummandList{{operands[0], true}};
  return std::nullopt;
}

GlobalTerms::GlobalTerms(const Graph& graph, std::span<const std::pair<ValueId, ValueId>> same)
    : graph_(graph), term_of_(graph.values().size(), -1) {
  for (const Argument& argument : graph.arguments()) term_of_[argument.value] = Fresh(argument.value);
  for (int n = 0; n < static_cast<int>(graph.nodes().size()); ++n) Add(n);
  for (const auto& [value, known] : same) {
    ids_[terms_[term_of_[value]]] = term_of_[known];
    term_of_[value] = term_of_[known];
  }
}

TermList GlobalTerms::Of(std::span<const ValueId> values) const {
  TermList terms;
  for (ValueId id : values) terms.push_back(Of(id));
  return terms;
}

std::string GlobalTerms::Describe(TermId id) const {
  const Term& term = terms_[id];
  auto name = [&](ValueId value) {
    const ValueInfo& info = graph_.value(value);
    return info.node < 0 ? "%" + info.name : graph_.Describe(info.node);
  };
  std::string text;
  if (IsNew(term.root)) {
    for (const SignedValue& part : GlobalSummands(id)) {
      if (text.empty()) text = part.is_negative ? "the sum -" : "the sum ";
      else text += part.is_negative ? " - " : " + ";
      text += name(part.value);
    }
  } else {
    text = name(term.root);
  }
  const Shape& shape = IsNew(term.root) ? terms_[new_sums_[term.root - graph_.values().size()].first].shape
                                        : graph_.value(term.root).type.shape;
  if (term.shape != shape) text += " as " + ShapeToString(term.shape);
  return text;
}

std::optional<TermId> GlobalTerms::Empty(const Type& type) {
  const auto root = empty_.find(type.dtype);
  if (type.num_elements() != 0 || root == empty_.end()) return std::nullopt;
  return Intern({root->second, type.shape});
}

// ---- Nodes.

uint64_t GlobalTerms::HashOf(const OpRow& row, std::span<const TermId> operands, const Attrs& attrs) {
  uint64_t hash = std::bit_cast<uintptr_t>(&row);
  for (TermId id : operands) hash = Mix(hash, static_cast<uint64_t>(id));
  if (row.resize != nullptr || row.exchange != nullptr || row.on_windows != nullptr) return hash;
  for (const AttrSpec& spec : row.attrs)
    if (!spec.is_result_shape) hash = Mix(hash, std::visit(AttrHash(), *attrs.Find(spec.name)));
  return hash;
}

void GlobalTerms::Add(int n) {
  const Node& node = graph_.nodes()[n];
  const std::string_view op = node.row->name;
  const TermList operands = Of(node.operands);
  if (IsNote(node)) {
    term_of_[node.results[0]] = operands[0];
    return;
  }
  if (op == "reshape") {
    term_of_[node.results[0]] = Reshaped(operands[0], graph_.value(node.results[0]).type.shape);
    return;
  }
  if (op == "dimension_size") {
    constants_.push_back(SizeOf(node));
    AddOp(constants_.back());
  } else {
    AddOp(node);
  }
}

// The number that a node asks for, as a constant.
Node GlobalTerms::SizeOf(const Node& node) const {
  int64_t size = 1;
  for (int64_t d : node.attrs.Get<std::vector<int64_t>>("dims"))
    size *= graph_.value(node.operands[0]).type.shape[d];
  const OpRow& row = GetOp("constant");
  return {.row = &row,
          .results = node.results,
          .attrs = Graph::CompleteAttrs(row, {{"value", static_cast<double>(size)},
                                              {"dtype", node.attrs.Get<DType>("dtype")},
                                              {"shape", std::vector<int64_t>{}}})
                       .value()};
}

// Gives the node's results new terms, unless another node computes them.
void GlobalTerms::AddOp(const Node& node) {
  const TermList operands = Of(node.operands);
  const Node* known = nullptr;
  ForEachNode(*node.row, operands, node.attrs, [&](const Node& same) {
    if (known == nullptr && same.attrs == node.attrs && BodiesGiveTheSame(same, node)) known = &same;
  });
  if (known != nullptr) {
    for (size_t r = 0; r < node.results.size(); ++r) term_of_[node.results[r]] = Of(known->results[r]);
    // A local body may follow either of the two bodies, so both are kept.
    if (!SameRegions(*known, node)) nodes_.emplace(HashOf(*node.row, operands, node.attrs), &node);
    return;
  }
  if (NumElements(graph_.value(node.results[0]).type.shape) == 0) {
    for (ValueId result : node.results) term_of_[result] = Fresh(result);
  } else if (node.row->exchange != nullptr) {
    AddMove(node);
  } else if (const Node* twin = FindTwin(node); twin != nullptr) {
    for (size_t r = 0; r < node.results.size(); ++r) term_of_[node.results[r]] = Of(twin->results[r]);
  } else if (const auto summands = SummandsOf(*node.row, operands); summands.has_value()) {
    const ValueId result = node.results[0];
    Form form = FormOf(*summands);
    const std::optional<TermId> sum = FindSum(form, graph_.value(result).type.shape);
    term_of_[result] = sum.has_value() ? *sum : Fresh(result);
    if (!sum.has_value()) SetForm(term_of_[result], std::move(form));
  } else {
    for (ValueId result : node.results) term_of_[result] = Fresh(result);
  }
  nodes_.emplace(HashOf(*node.row, operands, node.attrs), &node);
}

// A node that computes the same from what both nodes see through windows. Both are kept: on blocks along some
// of these dims their attributes may differ.
const Node* GlobalTerms::FindTwin(const Node& node) const {
  const Node* twin = nullptr;
  if (node.row->on_windows == nullptr) return twin;
  ForEachNode(*node.row, Of(node.operands), node.attrs, [&](const Node& other) {
    if (twin == nullptr && SeeAlike(graph_, other, node)) twin = &other;
  });
  return twin;
}

// ---- Moves.

Movement GlobalTerms::MovementOfTerms(const Exchange& exchange, std::span<const TermId> operands,
                                      std::span<const Type> types, const Type& result) const {
  return Composed(MovementOf(exchange, types, operands, result), [this](int32_t source) {
    const auto found = movements_.find(source);
    return found == movements_.end() ? nullptr : &found->second;
  });
}

std::optional<TermId> GlobalTerms::FindMovement(const Movement& movement) const {
  if (const auto found = moved_.find(movement.Key()); found != moved_.end()) return Of(found->second);
  if (movement.parts.size() == 1) {
    const TermId source = movement.parts[0].source;
    if (movement.IsIdentity({movement.type.dtype, terms_[source].shape})) return source;
  }
  return std::nullopt;
}

std::optional<TermId> GlobalTerms::Moved(const Exchange& exchange, std::span<const TermId> operands,
                                         std::span<const Type> types, const Type& result) const {
  return FindMovement(MovementOfTerms(exchange, operands, types, result));
}

void GlobalTerms::AddMove(const Node& node) {
  const ValueId result = node.results[0];
  const std::vector<Type> given = TypesOf(graph_, node.operands), results = TypesOf(graph_, node.results);
  const Exchange exchange = node.row->exchange({given, results, node.attrs});
  std::vector<Type> types;
  TermList operands;
  const size_t count = exchange.dims.empty() ? given.size() : exchange.dims[0].offsets.size();
  for (size_t o = 0; o < count; ++o) {
    types.push_back(given[MovedOperand(o, given.size())]);
    operands.push_back(Of(node.operands[MovedOperand(o, given.size())]));
  }
  Movement movement = MovementOfTerms(exchange, operands, types, results[0]);
  const std::optional<TermId> known = FindMovement(movement);
  term_of_[result] = known.has_value() ? *known : Fresh(result);
  moved_.try_emplace(movement.Key(), result);
  if (!known.has_value()) movements_.emplace(term_of_[result], std::move(movement));
}

TermId GlobalTerms::Intern(Term term) {
  if (NumElements(term.shape) == 0)
    term.root = empty_.try_emplace(graph_.value(term.root).type.dtype, term.root).first->second;
  const auto id = static_cast<TermId>(terms_.size());
  const auto [it, is_new] = ids_.try_emplace(term, id);
  if (is_new) {
    terms_.push_back(std::move(term));
    forms_.push_back({.plus = Scatter(static_cast<uint64_t>(id)) % kPrime});
  }
  return it->second;
}

// ---- Sums.

GlobalTerms::Form GlobalTerms::FormOf(const SummandList& summands) const {
  Form form{.summands = summands};
  for (const auto& [term, is_negative] : summands) {
    const Form& part = forms_[term];
    form.plus = AddHashes(form.plus, is_negative ? part.minus : part.plus);
    form.minus = AddHashes(form.minus, is_negative ? part.plus : part.minus);
  }
  return form;
}

void GlobalTerms::SetForm(TermId id, Form form) {
  sums_.emplace(Mix(form.plus, form.minus), id);
  forms_[id] = std::move(form);
}

std::optional<TermId> GlobalTerms::FindSum(const Form& form, const Shape& shape) const {
  const auto [begin, end] = sums_.equal_range(Mix(form.plus, form.minus));
  for (auto it = begin; it != end; ++it)
    if (terms_[it->second].shape == shape && AddUpAlike(form.summands, it->second)) return it->second;
  return std::nullopt;
}

// Whether the sum of `summands` and the term `id`, expanded, are the same multiset. A term is made of earlier
// terms. So when the latest term that the two sides do not share is expanded, its count is final.
bool GlobalTerms::AddUpAlike(const SummandList& summands, TermId id) const {
  std::map<std::pair<TermId, bool>, int64_t, std::greater<>> surplus;  // of the one side over the other
  auto add = [&](const Summand& part, bool is_negated, int64_t times) {
    const auto it = surplus.try_emplace({part.term, part.is_negative != is_negated}).first;
    it->second += times;
    if (it->second == 0) surplus.erase(it);
  };
  for (const Summand& part : summands) add(part, false, 1);
  add({id, false}, false, -1);
  for (int i = 0; i < kMostExpansions && !surplus.empty(); ++i) {
    const auto [latest, times] = *surplus.begin();
    const auto& [term, is_negative] = latest;
    if (forms_[term].summands.empty() || std::abs(times) > kMostTimes) return false;
    surplus.erase(surplus.begin());
    for (const Summand& part : forms_[term].summands) add(part, is_negative, times);
  }
  return surplus.empty();
}

std::optional<TermId> GlobalTerms::Sum(const SummandList& summands, const Shape& shape) {
  if (NumElements(shape) == 0) return Reshaped(summands[0].term, shape);
  Form form = FormOf(summands);
  if (const std::optional<TermId> known = FindSum(form, shape); known.has_value()) return known;
  SignedValueList values;
  for (const auto& [term, is_negative] : summands) {
    const ValueId root = terms_[term].root;
    if (IsNew(root) && new_sums_[root - graph_.values().size()].first != term) return std::nullopt;
    for (const SignedValue& part : GlobalSummands(term))
      values.push_back({part.value, part.is_negative != is_negative});
  }
  if (values.size() > kMostSummands) return std::nullopt;
  const TermId id = Intern({static_cast<ValueId>(graph_.values().size() + new_sums_.size()), shape});
  new_sums_.emplace_back(id, std::move(values));
  SetForm(id, std::move(form));
  return id;
}

SignedValueList GlobalTerms::GlobalSummands(TermId id) const {
  const ValueId root = terms_[id].root;
  if (IsNew(root)) return new_sums_[root - graph_.values().size()].second;
  return {{root, false}};
}

}  // namespace meshwork
