#include "support/hostile_program.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/sample.h"
#include "meshwork/ir/text.h"
#include "support/hostile_builder.h"
#include "support/hostile_chance.h"
#include "support/hostile_pieces.h"

namespace meshwork {
namespace {

using Names = std::vector<std::string>;
using Body = HostileBody;
using Named = HostileBody::Value;

constexpr std::string_view kMeshes[] = {"[]",         "[x=2]",           "[x=3]", "[x=2, y=2]",
                                        "[x=4, y=2]", "[x=2, y=3, z=1]", "[x=5]", "[x=6]"};
constexpr std::string_view kLargeMeshes[] = {"[x=64, y=4]", "[x=100]", "[x=8192]", "[x=1048576, y=1048576]"};

// The names of the axes.
Names AxesOf(std::string_view mesh) {
  Names axes;
  for (char axis : {'x', 'y', 'z'})
    if (mesh.find(fmt::format("{}=", axis)) != std::string::npos) axes.emplace_back(1, axis);
  return axes;
}

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
  Drawer(uint64_t seed, const Trying& trying)
      : chance_(seed),
        mesh_(chance_.Percent(8) ? chance_.Of(kLargeMeshes) : chance_.Of(kMeshes)),
        pieces_(chance_, AxesOf(mesh_)),
        builder_(chance_, pieces_, mesh_, trying) {}

  HostileProgram Draw() {
    Body body;
    const int arguments = chance_.Below(3);
    for (int i = 0; i < arguments; ++i) builder_.AddArgument(body, pieces_.RandomType(), chance_.Percent(25));
    const int statements = 1 + chance_.Below(6);
    for (int i = 0; i < statements; ++i) AddStatement(body, /*depth=*/0);
    AddUpdates(body);
    const size_t outputs = 1 + static_cast<size_t>(chance_.Below(4));
    for (size_t i = body.values.size(); i-- > 0 && body.outputs.size() < outputs;)
      if (body.outputs.empty() || chance_.Percent(70)) body.outputs.push_back(body.values[i].name);
    return {builder_.Text(body), ends_};
  }

 private:
  // ---- Statements.

  std::string Operand(Body& body, const Type* like, bool in_body) {
    std::vector<std::string> alike, all;
    for (const Named& value : body.values) {
      all.push_back(value.name);
      if (like != nullptr && value.type == *like) alike.push_back(value.name);
    }
    if (!alike.empty() && chance_.Percent(70)) return chance_.Of(alike);
    if (!all.empty() && (like == nullptr || in_body || chance_.Percent(15))) return chance_.Of(all);
    Type type = like != nullptr ? *like : pieces_.RandomType();
    if (in_body) return "";
    if (chance_.Percent(8)) type.dtype = chance_.Of(kAllDTypes);
    if (!type.shape.empty() && chance_.Percent(12)) {
      const size_t d = static_cast<size_t>(chance_.Below(type.rank()));
      if (chance_.Percent(30)) type.shape.erase(type.shape.begin() + static_cast<int64_t>(d));
      else type.shape[d] = chance_.Percent(85) ? chance_.Below(10) : std::max<int64_t>(chance_.Number(), 0);
    }
    return builder_.AddArgument(body, type, chance_.Percent(15));
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

  // Returns whether the parser takes the statement. In a body no arguments are added.
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
      const std::string written = as_sample ? PrintAttr(Mesh(), *value) : pieces_.AttrText(spec, value, rank);
      if (spec.kind == AttrKind::kLayout) text += " " + written;
      else text += fmt::format(" {}={}", spec.name, written);
    }
    const size_t results = row.num_results < 0 ? operands : static_cast<size_t>(row.num_results);
    return builder_.Append(body, before, text, results, /*may_be_pinned=*/!in_body || chance_.Percent(20));
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
      if (!builder_.Parse(body).has_value()) body.updates.pop_back();
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
      if (builder_.AddArgument(inner.body, value.type, false, false).empty()) continue;
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
      if (builder_.AddArgument(inner.body, value.type, true, false).empty()) continue;
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
      if (builder_.AddArgument(inner.body, slice, false, false).empty()) continue;
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
    return builder_.Append(
        body, before,
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
      if (builder_.AddArgument(inner.body, value.type, true, false).empty()) continue;
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
      const std::string name = builder_.NewValue();
      inner.body.statements.push_back(fmt::format("{} = constant value=0 dtype=bool shape=[]", name));
      inner.body.outputs.push_back(name);
    }
    const bool made = builder_.Append(body, before,
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
    else if (depth == 0) predicate = builder_.AddArgument(body, {BOOL, {}}, false);
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
    return builder_.Append(body, before,
                           fmt::format("if {} {} {} else {} {}", fmt::join(operands, ", "),
                                       then.body.ArgumentsText(), then.body.StatementsText(),
                                       otherwise.body.ArgumentsText(), otherwise.body.StatementsText()),
                           results, true);
  }

  // The blocks of some values, cut by axes that divide them.
  bool AddManual(Body& body) {
    if (body.values.empty() || pieces_.axes().empty()) return false;
    const Body before = body;
    Inner inner;
    for (int n = 1 + chance_.Below(2); n > 0; --n) {
      const Named value = chance_.Of(body.values);
      Type block = value.type;
      Names dims(block.shape.size(), "_");
      const std::string axis = chance_.Of(pieces_.axes());
      const int64_t size = std::stoll(mesh_.substr(mesh_.find(axis + "=") + 2));
      for (size_t d = 0; d < dims.size(); ++d)
        if (block.shape[d] % size == 0 && chance_.Percent(50)) {
          block.shape[d] /= size;
          dims[d] = axis;
          break;
        }
      const std::string name = builder_.NewArgument();
      inner.body.arguments.push_back(
          fmt::format("{}: {} {{{}}}", name, block.ToString(), fmt::join(dims, ",")));
      inner.body.values.push_back({name, block});
      inner.operands.push_back(value.name);
    }
    for (int n = chance_.Below(4); n > 0; --n) {
      // A statement of a region is tried as one of the program outside: the region's arguments are not whole tensors.
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
      const std::string name = builder_.NewValue();
      Names dims(value.type.shape.size(), "_");
      if (!dims.empty() && chance_.Percent(60))
        dims[static_cast<size_t>(chance_.Below(static_cast<int>(dims.size())))] = chance_.Of(pieces_.axes());
      inner.body.statements.push_back(fmt::format("{} = device_block {} {}", name, value.name,
                                                  chance_.Percent(85)
                                                      ? fmt::format("{{{}}}", fmt::join(dims, ","))
                                                      : pieces_.RandomLayout(value.type.rank())));
      inner.body.outputs.push_back(name);
    }
    return builder_.Append(body, before,
                           fmt::format("manual {} {} {}", fmt::join(inner.operands, ", "),
                                       inner.body.ArgumentsText(), inner.body.StatementsText()),
                           static_cast<size_t>(results), true);
  }

  HostileChance chance_;
  std::string mesh_;
  HostilePieces pieces_;
  HostileBuilder builder_;
  bool ends_ = true;
};

}  // namespace

HostileProgram DrawHostile(uint64_t seed, const Trying& trying) { return Drawer(seed, trying).Draw(); }

}  // namespace meshwork
