#include "support/hostile_program.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/sample.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kNumbers[] = {0,
                                1,
                                -1,
                                2,
                                3,
                                -2,
                                5,
                                7,
                                25,
                                26,
                                27,
                                64,
                                127,
                                128,
                                255,
                                256,
                                1000,
                                -1000,
                                int64_t{1} << 15,
                                int64_t{1} << 20,
                                int64_t{1} << 30,
                                (int64_t{1} << 31) - 1,
                                int64_t{1} << 31,
                                -(int64_t{1} << 31),
                                int64_t{1} << 32,
                                int64_t{1} << 40,
                                (int64_t{1} << 53) + 1,
                                int64_t{1} << 60,
                                int64_t{1} << 62,
                                -(int64_t{1} << 62),
                                kMost - 1,
                                kMost,
                                kLeast,
                                kLeast + 1};
constexpr std::string_view kReals[] = {"0",    "-0",   "1",    "-1",    "0.5",    "nan",
                                       "-nan", "inf",  "-inf", "1e308", "-1e308", "1e-310",
                                       "2.5",  "1e30", "1e9",  "3e38",  "4e38",   "9007199254740993",
                                       "-3"};
constexpr std::string_view kMeshes[] = {"[]",         "[x=2]",           "[x=3]", "[x=2, y=2]",
                                        "[x=4, y=2]", "[x=2, y=3, z=1]", "[x=5]", "[x=6]"};
constexpr std::string_view kLargeMeshes[] = {"[x=64, y=4]", "[x=100]", "[x=8192]", "[x=1048576, y=1048576]"};

class Chance {
 public:
  explicit Chance(uint64_t seed) : engine_(seed) {}
  bool Percent(int percent) { return Below(100) < percent; }
  int Below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }
  template <typename List>
  auto Of(const List& list) {
    return *(std::begin(list) + Below(static_cast<int>(std::size(list))));
  }
  int64_t Number() { return Percent(50) ? Below(9) - 2 : Of(kNumbers); }

 private:
  std::mt19937_64 engine_;
};

struct Named {
  std::string name;
  Type type;
};

// A program, or a body, while it grows.
struct Body {
  Names arguments, statements, updates, outputs;
  std::vector<Named> values;

  std::string ArgumentsText() const { return fmt::format("({})", fmt::join(arguments, ", ")); }
  std::string StatementsText() const {
    std::string text = "{\n";
    for (const std::string& statement : statements) text += statement + "\n";
    for (const std::string& update : updates) text += update + "\n";
    if (!outputs.empty()) text += fmt::format("return {}\n", fmt::join(outputs, ", "));
    return text + "}";
  }
};

// The samples of all rows, read once.
const std::map<const OpRow*, std::vector<Sample>>& Samples() {
  static const auto* const samples = [] {
    auto* all = new std::map<const OpRow*, std::vector<Sample>>;
    for (const OpRow* row : AllOps())
      for (std::string_view text : row->samples)
        if (absl::StatusOr<Sample> sample = ParseSample(*row, text); sample.ok())
          (*all)[row].push_back(*std::move(sample));
    return all;
  }();
  return *samples;
}

class Drawer {
 public:
  Drawer(uint64_t seed, const Trying& trying) : chance_(seed), trying_(trying) {}

  HostileProgram Draw() {
    mesh_ = chance_.Percent(8) ? chance_.Of(kLargeMeshes) : chance_.Of(kMeshes);
    for (char axis : {'x', 'y', 'z'})
      if (mesh_.find(fmt::format("{}=", axis)) != std::string::npos) axes_.emplace_back(1, axis);
    Body body;
    const int arguments = chance_.Below(3);
    for (int i = 0; i < arguments; ++i) AddArgument(body, RandomType(), chance_.Percent(25));
    const int statements = 1 + chance_.Below(6);
    for (int i = 0; i < statements; ++i) AddStatement(body, /*depth=*/0);
    AddUpdates(body);
    const size_t outputs = 1 + static_cast<size_t>(chance_.Below(4));
    for (size_t i = body.values.size(); i-- > 0 && body.outputs.size() < outputs;)
      if (body.outputs.empty() || chance_.Percent(70)) body.outputs.push_back(body.values[i].name);
    return {Text(body), ends_};
  }

 private:
  std::string Text(const Body& body) const {
    return fmt::format("mesh {}\nfunc f{} {}\n", mesh_, body.ArgumentsText(), body.StatementsText());
  }

  std::optional<Graph> Parse(const Body& body) const {
    const std::string text = Text(body);
    if (trying_ != nullptr) trying_(text);
    absl::StatusOr<Graph> graph = ParseGraph(text);
    return graph.ok() ? std::optional(*std::move(graph)) : std::nullopt;
  }

  // ---- Pieces.

  Type RandomType() {
    Type type{chance_.Of(kAllDTypes), {}};
    if (chance_.Percent(50)) type.dtype = chance_.Percent(70) ? F32 : I32;
    const int rank = chance_.Percent(3) ? chance_.Below(28) : chance_.Below(5);
    for (int d = 0; d < rank; ++d) type.shape.push_back(rank > 6 ? 1 + chance_.Below(2) : chance_.Below(8));
    if (rank > 0 && chance_.Percent(6)) {
      int64_t& size = type.shape[chance_.Below(rank)];
      size = chance_.Of(Ints{1000, 65536, int64_t{1} << 24, int64_t{1} << 31, int64_t{1} << 32,
                             (int64_t{1} << 40) - 1, int64_t{1} << 40});
    }
    return type;
  }

  std::string RandomLayout(int rank) {
    if (chance_.Percent(3)) rank += chance_.Below(3) - 1;
    Names dims;
    Names axes = axes_;
    auto take = [&] {
      if (axes.empty() || chance_.Percent(2)) return axes_.empty() ? std::string("w") : chance_.Of(axes_);
      const auto at = axes.begin() + chance_.Below(static_cast<int>(axes.size()));
      std::string axis = *at;
      axes.erase(at);
      return axis;
    };
    for (int d = 0; d < rank; ++d) {
      if (chance_.Percent(50) || axes.empty()) dims.emplace_back("_");
      else if (chance_.Percent(12)) dims.emplace_back("?");
      else if (axes.size() > 1 && chance_.Percent(20)) dims.push_back(fmt::format("({},{})", take(), take()));
      else if (chance_.Percent(10))
        dims.push_back(fmt::format("{}@{}*{}", chance_.Number(), take(), chance_.Number()));
      else if (chance_.Percent(8))
        dims.push_back(fmt::format("{}:({}){}", take(), 1 + chance_.Below(3), 1 + chance_.Below(4)));
      else dims.push_back(take());
    }
    std::string partial;
    if (!axes.empty() && chance_.Percent(3))
      partial = fmt::format(" | {}:{}", chance_.Of(Names{"sum", "max", "prod"}), take());
    return fmt::format("{{{}{}}}", fmt::join(dims, ","), partial);
  }

  std::string AddArgument(Body& body, const Type& type, bool is_variable, bool may_lie = true) {
    const std::string name = fmt::format("%a{}", count_++);
    std::string text = fmt::format("{}{}: {}", is_variable ? "var " : "", name, type.ToString());
    if (may_lie && chance_.Percent(50)) text += " " + RandomLayout(type.rank());
    if (may_lie && chance_.Percent(4)) text += is_variable ? " gather=on_use" : " gather=allowed";
    body.arguments.push_back(text);
    body.values.push_back({name, type});
    if (!Parse(body).has_value())
      body.arguments.back() = fmt::format("{}{}: {}", is_variable ? "var " : "", name, type.ToString());
    if (!Parse(body).has_value()) {
      body.arguments.pop_back();
      body.values.pop_back();
      return "";
    }
    return name;
  }

  Ints Changed(Ints list) {
    const int times = 1 + chance_.Below(2);
    for (int i = 0; i < times; ++i) {
      switch (chance_.Below(7)) {
        case 0: list.push_back(chance_.Number()); break;
        case 1:
          if (!list.empty()) list.pop_back();
          break;
        case 2: std::reverse(list.begin(), list.end()); break;
        case 3:
          if (!list.empty()) list.push_back(chance_.Of(list));
          break;
        case 4:
          if (chance_.Percent(20)) list.clear();
          break;
        default:
          if (!list.empty())
            list[static_cast<size_t>(chance_.Below(static_cast<int>(list.size())))] = chance_.Number();
      }
    }
    return list;
  }

  std::string AttrText(const AttrSpec& spec, const AttrValue* sample, int rank) {
    const bool as_is = sample != nullptr && chance_.Percent(60);
    switch (spec.kind) {
      case AttrKind::kBool: return chance_.Percent(50) ? "true" : "false";
      case AttrKind::kInt:
        if (as_is) break;
        return fmt::format("{}",
                           sample != nullptr && chance_.Percent(40)
                               ? static_cast<int64_t>(static_cast<uint64_t>(std::get<int64_t>(*sample)) +
                                                      static_cast<uint64_t>(chance_.Below(3) - 1))
                               : chance_.Number());
      case AttrKind::kFloat:
        if (as_is) break;
        return std::string(chance_.Of(kReals));
      case AttrKind::kDType:
        if (as_is) break;
        return std::string(DTypeName(chance_.Of(kAllDTypes)));
      case AttrKind::kInts: {
        if (as_is) break;
        Ints list = sample != nullptr ? std::get<Ints>(*sample) : Ints{};
        if (sample == nullptr)
          for (int n = chance_.Below(4); n > 0; --n) list.push_back(chance_.Number());
        else list = Changed(std::move(list));
        return fmt::format("[{}]", fmt::join(list, ","));
      }
      case AttrKind::kAxes: {
        Names names;
        for (const std::string& axis : axes_)
          if (chance_.Percent(60)) names.push_back(axis);
        if (names.empty()) names.emplace_back("x");
        return fmt::format("({})", fmt::join(names, ","));
      }
      case AttrKind::kReduceOp:
        if (as_is && chance_.Percent(50)) break;
        return std::string(ReduceOpName(chance_.Of(kAllReduceOps)));
      case AttrKind::kLayout: return RandomLayout(rank);
    }
    return PrintAttr(Mesh(), *sample);
  }

  // ---- Statements.

  std::string Operand(Body& body, const Type* like, bool in_body) {
    std::vector<std::string> alike, all;
    for (const Named& value : body.values) {
      all.push_back(value.name);
      if (like != nullptr && value.type == *like) alike.push_back(value.name);
    }
    if (!alike.empty() && chance_.Percent(70)) return chance_.Of(alike);
    if (!all.empty() && (like == nullptr || in_body || chance_.Percent(15))) return chance_.Of(all);
    Type type = like != nullptr ? *like : RandomType();
    if (in_body) return "";
    if (chance_.Percent(8)) type.dtype = chance_.Of(kAllDTypes);
    if (!type.shape.empty() && chance_.Percent(12)) {
      const size_t d = static_cast<size_t>(chance_.Below(type.rank()));
      if (chance_.Percent(30)) type.shape.erase(type.shape.begin() + static_cast<int64_t>(d));
      else type.shape[d] = chance_.Percent(85) ? chance_.Below(10) : std::max<int64_t>(chance_.Number(), 0);
    }
    return AddArgument(body, type, chance_.Percent(15));
  }

  const OpRow& DrawRow(bool manual) {
    while (true) {
      const OpRow& row = *chance_.Of(AllOps());
      if (row.kind == OpKind::kControl) continue;
      const bool is_local = row.kind == OpKind::kCollective || row.kind == OpKind::kLocal;
      if (is_local && !chance_.Percent(5)) continue;
      if (row.kind == OpKind::kDevice && !manual && !chance_.Percent(10)) continue;
      if (manual && row.kind != OpKind::kDevice && chance_.Percent(50)) continue;
      return row;
    }
  }

  // Whether the parser takes it. In a body no arguments are added.
  bool AddApplied(Body& body, const Body& before, const OpRow& row, const Sample* sample, bool in_body) {
    size_t operands = sample != nullptr      ? sample->operands.size()
                      : row.num_operands < 0 ? 1 + static_cast<size_t>(chance_.Below(3))
                                             : static_cast<size_t>(row.num_operands);
    if (row.optional_operands > 0 && chance_.Percent(30))
      operands += static_cast<size_t>(chance_.Below(row.optional_operands + 1));
    if (row.num_operands < 0 && chance_.Percent(3)) operands = static_cast<size_t>(chance_.Below(300));
    if (chance_.Percent(2)) operands += 1;
    Names names;
    int rank = 0;
    for (size_t o = 0; o < operands; ++o) {
      const Type* like = sample == nullptr             ? nullptr
                         : o < sample->operands.size() ? &sample->operands[o]
                         : sample->operands.empty()    ? nullptr
                                                       : &sample->operands.back();
      const std::string name = o > 6 && !names.empty() ? names.back() : Operand(body, like, in_body);
      if (name.empty()) {
        body = before;
        return false;
      }
      names.push_back(name);
      for (const Named& value : body.values)
        if (value.name == name && o == 0) rank = value.type.rank();
    }
    std::string text = fmt::format("{} {}", row.name, fmt::join(names, ", "));
    const bool changes = chance_.Percent(60);
    for (const AttrSpec& spec : row.attrs) {
      const AttrValue* value = sample != nullptr ? sample->attrs.Find(spec.name) : nullptr;
      if (spec.fallback.has_value() && chance_.Percent(changes ? 30 : 60) &&
          (value == nullptr || SameAttr(*value, *spec.fallback)))
        continue;
      const bool as_sample = value != nullptr && !changes && spec.kind != AttrKind::kLayout;
      const std::string written = as_sample ? PrintAttr(Mesh(), *value) : AttrText(spec, value, rank);
      if (spec.kind == AttrKind::kLayout) text += " " + written;
      else text += fmt::format(" {}={}", spec.name, written);
    }
    const size_t results = row.num_results < 0 ? operands : static_cast<size_t>(row.num_results);
    return Append(body, before, text, results, /*may_be_pinned=*/!in_body || chance_.Percent(20));
  }

  // Appends "%v0, %v1 = text", and the values that it makes.
  bool Append(Body& body, const Body& before, const std::string& text, size_t results, bool may_be_pinned) {
    Names made;
    for (size_t r = 0; r < results; ++r) made.push_back(fmt::format("%v{}", count_++));
    const std::string line = made.empty() ? text : fmt::format("{} = {}", fmt::join(made, ", "), text);
    body.statements.push_back(line);
    const std::optional<Graph> graph = Parse(body);
    if (!graph.has_value()) {
      body = before;
      return false;
    }
    const Node& node = graph->nodes().back();
    Names types;
    for (size_t r = 0; r < node.results.size() && r < made.size(); ++r) {
      const Type& type = graph->value(node.results[r]).type;
      body.values.push_back({made[r], type});
      types.push_back(fmt::format("{} {}", type.ToString(), RandomLayout(type.rank())));
    }
    if (!may_be_pinned || types.empty() || !chance_.Percent(25)) return true;
    body.statements.back() = fmt::format("{} : {}", line, fmt::join(types, ", "));
    if (!Parse(body).has_value()) body.statements.back() = line;
    return true;
  }

  void AddStatement(Body& body, int depth) {
    for (int tries = 0; tries < 12; ++tries) {
      const int kind = chance_.Below(100);
      if (depth < 3 && kind < 4) {
        if (AddScan(body, depth)) return;
      } else if (depth < 3 && kind < 6) {
        if (AddWhile(body, depth)) return;
      } else if (depth < 3 && kind < 9) {
        if (AddIf(body, depth)) return;
      } else if (kind < 12) {
        if (AddManual(body)) return;
      } else {
        const OpRow& row = DrawRow(/*manual=*/false);
        if (Apply(body, row, depth > 0)) return;
      }
    }
  }

  bool Apply(Body& body, const OpRow& row, bool in_body) {
    const Body before = body;
    const auto found = Samples().find(&row);
    const Sample* sample = nullptr;
    if (found != Samples().end())
      sample = &found->second[static_cast<size_t>(chance_.Below(static_cast<int>(found->second.size())))];
    return AddApplied(body, before, row, sample, in_body);
  }

  void AddUpdates(Body& body) {
    for (const std::string& argument : Names(body.arguments)) {
      if (!argument.starts_with("var ") || chance_.Percent(20)) continue;
      const std::string name = argument.substr(4, argument.find(':') - 4);
      const Type* type = nullptr;
      for (const Named& value : body.values)
        if (value.name == name) type = &value.type;
      Names alike;
      for (const Named& value : body.values)
        if (type != nullptr && (value.type == *type || chance_.Percent(1))) alike.push_back(value.name);
      if (alike.empty()) continue;
      body.updates.push_back(
          fmt::format("update {} = {}", name, chance_.Percent(50) ? alike.back() : chance_.Of(alike)));
      if (!Parse(body).has_value()) body.updates.pop_back();
    }
  }

  // ---- Bodies.

  // Some values of the program around, as operands of a node with a body, and the body's arguments for them.
  struct Inner {
    Body body;
    Names operands;
  };

  void Capture(const Body& body, Inner& inner, int most) {
    for (int n = chance_.Below(most + 1); n > 0 && !body.values.empty(); --n) {
      const Named value = chance_.Of(body.values);
      if (AddArgument(inner.body, value.type, false, false).empty()) continue;
      inner.operands.push_back(value.name);
    }
  }

  void Fill(Inner& inner, int depth) {
    for (int n = chance_.Below(4); n > 0; --n) AddStatement(inner.body, depth + 1);
  }

  std::string TypesOf(const Names& values, const Body& body) const {
    Names types;
    for (const std::string& name : values)
      for (const Named& value : body.values)
        if (value.name == name) types.push_back(value.type.ToString());
    return fmt::format("{}", fmt::join(types, ", "));
  }

  bool AddScan(Body& body, int depth) {
    const Body before = body;
    Inner inner;
    const int carries = chance_.Below(3);
    for (int c = 0; c < carries && !body.values.empty(); ++c) {
      const Named value = chance_.Of(body.values);
      if (AddArgument(inner.body, value.type, true, false).empty()) continue;
      inner.operands.push_back(value.name);
    }
    const size_t carried = inner.operands.size();
    int64_t length = chance_.Percent(90) ? chance_.Below(5) : chance_.Number();
    int64_t slices = 0;
    for (const Named& value : body.values) {
      if (value.type.rank() == 0 || !chance_.Percent(20)) continue;
      if (slices > 0 && value.type.shape[0] != length) continue;
      length = value.type.shape[0];
      Type slice = value.type;
      slice.shape.erase(slice.shape.begin());
      if (AddArgument(inner.body, slice, false, false).empty()) continue;
      inner.operands.push_back(value.name);
      ++slices;
    }
    Capture(body, inner, 2);
    Fill(inner, depth);
    AddUpdates(inner.body);
    int64_t sums = 0;
    for (int n = chance_.Below(3); n > 0 && !inner.body.values.empty(); --n)
      inner.body.outputs.push_back(chance_.Of(inner.body.values).name);
    if (!inner.body.outputs.empty()) sums = chance_.Below(static_cast<int>(inner.body.outputs.size()) + 1);
    if (chance_.Percent(5)) slices = chance_.Number();
    if (chance_.Percent(5)) sums = chance_.Number();
    const size_t results = carried + inner.body.outputs.size();
    if (results == 0) return false;
    return Append(body, before,
                  fmt::format("scan {} length={} slices={} sums={} reverse={} recompute={} {} {}",
                              fmt::join(inner.operands, ", "), length, slices, sums, chance_.Percent(30),
                              chance_.Percent(30), inner.body.ArgumentsText(), inner.body.StatementsText()),
                  results, true);
  }

  bool AddWhile(Body& body, int depth) {
    const Body before = body;
    Inner inner;
    for (int c = 1 + chance_.Below(2); c > 0 && !body.values.empty(); --c) {
      const Named value = chance_.Of(body.values);
      if (AddArgument(inner.body, value.type, true, false).empty()) continue;
      inner.operands.push_back(value.name);
    }
    const size_t carried = inner.operands.size();
    if (carried == 0) return false;
    Capture(body, inner, 2);
    Fill(inner, depth);
    AddUpdates(inner.body);
    Names conditions;
    for (const Named& value : inner.body.values)
      if (value.type == Type{BOOL, {}}) conditions.push_back(value.name);
    const bool is_free = !conditions.empty() && chance_.Percent(50);
    if (is_free) {
      inner.body.outputs.push_back(chance_.Of(conditions));
    } else {
      inner.body.statements.push_back(fmt::format("%v{} = constant value=0 dtype=bool shape=[]", count_));
      inner.body.outputs.push_back(fmt::format("%v{}", count_++));
    }
    const bool made = Append(body, before,
                             fmt::format("while {} {} {}", fmt::join(inner.operands, ", "),
                                         inner.body.ArgumentsText(), inner.body.StatementsText()),
                             carried, true);
    ends_ = ends_ && !(made && is_free);
    return made;
  }

  bool AddIf(Body& body, int depth) {
    const Body before = body;
    Names predicates;
    for (const Named& value : body.values)
      if (value.type == Type{BOOL, {}}) predicates.push_back(value.name);
    std::string predicate;
    if (!predicates.empty()) predicate = chance_.Of(predicates);
    else if (depth == 0) predicate = AddArgument(body, {BOOL, {}}, false);
    if (predicate.empty()) return false;
    Inner then;
    Capture(body, then, 3);
    Inner otherwise = then;
    Fill(then, depth);
    Fill(otherwise, depth);
    for (const Named& value : then.body.values) {
      Names alike;
      for (const Named& other : otherwise.body.values)
        if (other.type == value.type) alike.push_back(other.name);
      if (alike.empty() || !chance_.Percent(50)) continue;
      then.body.outputs.push_back(value.name);
      otherwise.body.outputs.push_back(chance_.Of(alike));
    }
    const size_t results = then.body.outputs.size();
    if (results == 0) return false;
    Names operands{predicate};
    operands.insert(operands.end(), then.operands.begin(), then.operands.end());
    return Append(body, before,
                  fmt::format("if {} {} {} else {} {}", fmt::join(operands, ", "), then.body.ArgumentsText(),
                              then.body.StatementsText(), otherwise.body.ArgumentsText(),
                              otherwise.body.StatementsText()),
                  results, true);
  }

  // The blocks of some values, cut by axes that divide them.
  bool AddManual(Body& body) {
    if (body.values.empty() || axes_.empty()) return false;
    const Body before = body;
    Inner inner;
    for (int n = 1 + chance_.Below(2); n > 0; --n) {
      const Named value = chance_.Of(body.values);
      Type block = value.type;
      Names dims(block.shape.size(), "_");
      const std::string axis = chance_.Of(axes_);
      const int64_t size = std::stoll(mesh_.substr(mesh_.find(axis + "=") + 2));
      for (size_t d = 0; d < dims.size(); ++d)
        if (block.shape[d] % size == 0 && chance_.Percent(50)) {
          block.shape[d] /= size;
          dims[d] = axis;
          break;
        }
      const std::string name = fmt::format("%a{}", count_++);
      inner.body.arguments.push_back(
          fmt::format("{}: {} {{{}}}", name, block.ToString(), fmt::join(dims, ",")));
      inner.body.values.push_back({name, block});
      inner.operands.push_back(value.name);
    }
    for (int n = chance_.Below(4); n > 0; --n) {
      // A statement of a region is tried in the program around: its arguments are not of whole tensors.
      Body trial;
      for (const Named& value : inner.body.values) {
        trial.arguments.push_back(fmt::format("{}: {}", value.name, value.type.ToString()));
        trial.values.push_back(value);
      }
      if (Apply(trial, DrawRow(/*manual=*/true), /*in_body=*/true) && !trial.statements.empty()) {
        inner.body.statements.push_back(trial.statements.back());
        for (size_t v = inner.body.values.size(); v < trial.values.size(); ++v)
          inner.body.values.push_back(trial.values[v]);
      }
    }
    const int results = 1 + chance_.Below(2);
    for (int r = 0; r < results; ++r) {
      const Named value = chance_.Of(inner.body.values);
      const std::string name = fmt::format("%v{}", count_++);
      Names dims(value.type.shape.size(), "_");
      if (!dims.empty() && chance_.Percent(60))
        dims[static_cast<size_t>(chance_.Below(static_cast<int>(dims.size())))] = chance_.Of(axes_);
      inner.body.statements.push_back(fmt::format("{} = device_block {} {}", name, value.name,
                                                  chance_.Percent(85)
                                                      ? fmt::format("{{{}}}", fmt::join(dims, ","))
                                                      : RandomLayout(value.type.rank())));
      inner.body.outputs.push_back(name);
    }
    return Append(body, before,
                  fmt::format("manual {} {} {}", fmt::join(inner.operands, ", "), inner.body.ArgumentsText(),
                              inner.body.StatementsText()),
                  static_cast<size_t>(results), true);
  }

  Chance chance_;
  const Trying& trying_;
  std::string mesh_;
  Names axes_;
  int count_ = 0;
  bool ends_ = true;
};

// ---- Changes of a text.

struct Piece {
  size_t begin, size;
};

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("_./-").find(c) != std::string_view::npos;
}

// Where numbers, values (%x) or layouts ({x,_}) stand.
std::vector<Piece> PiecesOf(const std::string& text, char kind) {
  std::vector<Piece> pieces;
  const size_t from = text.find('{');
  for (size_t i = text.find('('); i < text.size(); ++i) {
    size_t end = i;
    if (kind == '0' && std::isdigit(static_cast<unsigned char>(text[i])) && !IsNameCharacter(text[i - 1]) &&
        text[i - 1] != '%') {
      while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end]))) ++end;
    } else if (kind == '%' && text[i] == '%') {
      ++end;
      while (end < text.size() && IsNameCharacter(text[end])) ++end;
    } else if (kind == '{' && text[i] == '{' && i != from) {
      end = text.find('}', i) + 1;
      if (end == 0 || text.substr(i, end - i).find('\n') != std::string::npos) end = i;
    }
    if (end > i) {
      pieces.push_back({i, end - i});
      i = end - 1;
    }
  }
  return pieces;
}

}  // namespace

HostileProgram DrawHostile(uint64_t seed, const Trying& trying) { return Drawer(seed, trying).Draw(); }

std::string DrawHostileLocal(const std::string& text, uint64_t seed) {
  Chance chance(seed);
  std::string changed = text;
  for (int times = 1 + chance.Below(3); times > 0; --times) {
    const int what = chance.Below(10);
    if (what < 2) {  // a line goes, or comes again
      const size_t at =
          changed.find('\n', static_cast<size_t>(chance.Below(static_cast<int>(changed.size()))));
      const size_t end = at == std::string::npos ? at : changed.find('\n', at + 1);
      if (end == std::string::npos) continue;
      changed.erase(at, end - at);
      continue;
    }
    if (what < 3) {  // another op
      const size_t at =
          changed.find(" = ", static_cast<size_t>(chance.Below(static_cast<int>(changed.size()))));
      if (at == std::string::npos) continue;
      const size_t end = changed.find_first_of(" \n", at + 3);
      if (end == std::string::npos) continue;
      changed.replace(at + 3, end - at - 3, chance.Of(AllOps())->name);
      continue;
    }
    const char kind = what < 6 ? '0' : what < 8 ? '%' : '{';
    const std::vector<Piece> pieces = PiecesOf(changed, kind);
    if (pieces.empty()) continue;
    const Piece at = chance.Of(pieces), other = chance.Of(pieces);
    changed.replace(at.begin, at.size,
                    kind == '0' && chance.Percent(60) ? fmt::format("{}", chance.Number())
                                                      : changed.substr(other.begin, other.size));
  }
  return changed;
}

}  // namespace meshwork
