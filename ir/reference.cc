#include "meshwork/ir/reference.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/pull_back.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/sample.h"
#include "meshwork/ir/text.h"
#include "meshwork/mesh/mesh.h"

namespace meshwork {
namespace {

using Names = std::vector<std::string>;

std::string Joined(const Names& names, std::string_view separator = ", ") {
  return fmt::format("{}", fmt::join(names, separator));
}

std::vector<Sample> SamplesOf(const OpRow& row) {
  std::vector<Sample> samples;
  for (std::string_view text : row.samples) samples.push_back(ParseSample(row, text).value());
  return samples;
}

// ---- Attributes, dtypes, gradients.

std::string_view KindName(AttrKind kind) {
  constexpr std::string_view kNames[] = {"bool", "int",  "float",     "dtype",
                                         "ints", "axes", "reduction", "layout"};
  return kNames[static_cast<int>(kind)];
}

Names AttributesOf(const OpRow& row) {
  Names names;
  for (const AttrSpec& spec : row.attrs) {
    names.push_back(fmt::format("{}: {}", spec.name, KindName(spec.kind)));
    if (spec.fallback.has_value()) names.back() += " = " + PrintAttr(Mesh(), *spec.fallback);
  }
  return names;
}

// Per operand, the first operand that has the same dtype in every sample; its own index if there is none
// before it.
std::vector<size_t> Alike(const std::vector<Sample>& samples, size_t operands) {
  std::vector<size_t> first(operands);
  for (size_t i = 0; i < operands; ++i) {
    first[i] = i;
    for (size_t j = 0; j < i && first[i] == i; ++j) {
      const bool alike = std::all_of(samples.begin(), samples.end(), [&](const Sample& sample) {
        return i >= sample.operands.size() || sample.operands[i].dtype == sample.operands[j].dtype;
      });
      if (alike) first[i] = first[j];
    }
  }
  return first;
}

// Whether the sample stays valid if operands alike to `which` (or the attribute dtype) have `dtype`.
bool Takes(const Sample& sample, const std::vector<size_t>& alike, size_t which, DType dtype) {
  std::vector<Type> operands = sample.operands;
  Attrs attrs = sample.attrs;
  for (size_t i = 0; i < operands.size(); ++i)
    if (alike[i] == alike[which]) operands[i].dtype = dtype;
  if (operands.empty()) attrs.Set("dtype", dtype);
  return InferTypes(*sample.row, operands, attrs).ok();
}

Names DTypesOf(const std::vector<Sample>& samples, const std::vector<size_t>& alike, size_t which) {
  Names names;
  for (DType dtype : kAllDTypes) {
    const bool takes = std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
      return (which < sample.operands.size() || sample.operands.empty()) &&
             Takes(sample, alike, which, dtype);
    });
    if (takes) names.emplace_back(DTypeName(dtype));
  }
  return names;
}

// "f32 f64; operand 1: i32 i64". Operands that may be of any dtype, one by one, are told as one.
Names DTypesOf(const OpRow& row) {
  const std::vector<Sample> samples = SamplesOf(row);
  size_t operands = 0;
  for (const Sample& sample : samples) operands = std::max(operands, sample.operands.size());
  const std::vector<size_t> alike = Alike(samples, operands);
  Names all;
  for (size_t i = 0; i < std::max<size_t>(operands, 1); ++i) {
    if (operands > 0 && alike[i] != i) continue;
    Names members;
    for (size_t j = 0; j < operands; ++j)
      if (alike[j] == i) members.push_back(fmt::format("{}", j));
    const std::string dtypes = Joined(DTypesOf(samples, alike, i), " ");
    const bool is_all = members.size() == operands;
    all.push_back(is_all ? dtypes
                         : fmt::format("{} {}: {}", members.size() == 1 ? "operand" : "operands",
                                       Joined(members, " "), dtypes));
  }
  return all;
}

std::string GradientOf(const OpRow& row) {
  if (HasSlope(row)) return "yes";
  return row.grad != nullptr || row.kind == OpKind::kCompute ? "zero" : "–";
}

// ---- Rules.

// How one sample may be sharded.
struct Sharding {
  std::string sample, rule;
  Names stay, owe, halo, whole, wait;

  bool operator==(const Sharding&) const = default;
};

std::string WhichName(Which which) {
  switch (which) {
    case Which::kAll: return "all";
    case Which::kOne: return "one";
    case Which::kFirst: return "operand 0";
    case Which::kAllButFirst: return "all but operand 0";
    case Which::kOneButFirst: return "one, not operand 0";
    case Which::kAny: break;
  }
  return "any";
}

// "sum (all)", "max, min (one)".
Names PassesOf(const Rule& rule, size_t operands) {
  std::vector<std::pair<Which, Names>> by_which;
  for (const PartialPass& pass : rule.passes) {
    const std::string name = pass.in == pass.out
                                 ? std::string(ReduceOpName(pass.in))
                                 : fmt::format("{} as {}", ReduceOpName(pass.in), ReduceOpName(pass.out));
    const auto it = std::find_if(by_which.begin(), by_which.end(),
                                 [&](const auto& e) { return e.first == pass.operands; });
    if (it == by_which.end()) by_which.push_back({pass.operands, {name}});
    else it->second.push_back(name);
  }
  Names names;
  for (const auto& [which, reductions] : by_which)
    names.push_back(Joined(reductions) + (operands > 1 ? " (" + WhichName(which) + ")" : ""));
  return names;
}

// Dims without a letter that have more than one element.
void AddCutDims(const std::vector<LetterList>& letters, const std::vector<Type>& types, std::string_view what,
                Names& whole) {
  for (size_t i = 0; i < letters.size(); ++i) {
    for (size_t d = 0; d < letters[i].size(); ++d) {
      if (letters[i][d] != kNoLetter || types[i].shape[d] <= 1) continue;
      whole.push_back(letters.size() > 1 ? fmt::format("dim {} of {} {}", d, what, i)
                                         : fmt::format("dim {} of the {}", d, what));
    }
  }
}

Sharding ShardingOf(const Sample& sample) {
  const Rule rule = sample.rule();
  Sharding sharding{.sample = sample.text, .rule = rule.ToString()};
  for (const Letter& letter : rule.letters) {
    const std::string name(1, letter.name);
    if (letter.whole) sharding.whole.push_back(name);
    else if (letter.reduced) sharding.owe.push_back(fmt::format("{} ({})", name, ReduceOpName(rule.reduce)));
    else if (letter.must_divide)
      sharding.stay.push_back(fmt::format("{} by what divides {}", name, letter.size));
    else sharding.stay.push_back(name);
    if (letter.windowed) sharding.halo.push_back(name);
  }
  AddCutDims(rule.operands, sample.operands, "operand", sharding.whole);
  AddCutDims(rule.results, sample.results, "result", sharding.whole);
  sharding.wait = PassesOf(rule, sample.operands.size());
  return sharding;
}

// The first sample of each kind. Kinds differ in how dims may be sharded or which reductions may wait, not in
// dtypes and ranks alone.
std::vector<Sharding> ShardingsOf(const OpRow& row) {
  std::vector<Sharding> all;
  if (row.rule == nullptr) return all;
  std::set<std::string> kinds;
  for (const Sample& sample : SamplesOf(row)) {
    Sharding sharding = ShardingOf(sample);
    const bool divides = Joined(sharding.stay, "").find(' ') != std::string::npos;
    const bool is_cut = sharding.rule.find('1') != std::string::npos;
    const std::string kind = fmt::format("{} {} {} {} {} {}", divides, is_cut, sharding.owe.size(),
                                         sharding.halo.size(), sharding.whole.size(), Joined(sharding.wait));
    if (kinds.insert(kind).second) all.push_back(std::move(sharding));
  }
  return all;
}

// ---- The page.

std::string OrDash(const Names& names, std::string_view separator = ", ") {
  return names.empty() ? "–" : Joined(names, separator);
}

// Escapes characters that would end a cell of a table, or begin a link.
std::string Cell(std::string_view text) {
  std::string cell;
  for (char c : text) {
    if (c == '|' || c == '[' || c == ']' || c == '*' || c == '<') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string Anchor(std::string_view title) {
  std::string anchor;
  for (char c : title) {
    if (c == ' ') anchor += '-';
    else if (c >= 'A' && c <= 'Z') anchor += static_cast<char>(c - 'A' + 'a');
    else if (c != ',') anchor += c;
  }
  return anchor;
}

std::string OpsTable(std::span<const OpRow> rows) {
  std::string out = "| op | computes | attributes | takes | gradient |\n|---|---|---|---|---|\n";
  for (const OpRow& row : rows) {
    out += fmt::format("| `{}` | {} | {} | {} | {} |\n", row.name, Cell(row.doc),
                       Cell(OrDash(AttributesOf(row))),
                       OrDash(row.kind == OpKind::kCompute ? DTypesOf(row) : Names(), "; "), GradientOf(row));
  }
  return out;
}

// Rows that are sharded alike stand in one line.
std::string ShardingTable(std::span<const OpRow> rows) {
  std::vector<std::pair<Sharding, Names>> lines;
  for (const OpRow& row : rows) {
    for (const Sharding& sharding : ShardingsOf(row)) {
      const auto it =
          std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == sharding; });
      const std::string name = fmt::format("`{}`", row.name);
      if (it == lines.end()) lines.push_back({sharding, {name}});
      else it->second.push_back(name);
    }
  }
  if (lines.empty()) return "";
  std::string out =
      "\n| op | of | rule | stays sharded | owes | halo | whole | may wait "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const auto& [s, ops] : lines)
    out += fmt::format("| {} | `{}` | `{}` | {} | {} | {} | {} | {} |\n", Joined(ops), s.sample, s.rule,
                       OrDash(s.stay), OrDash(s.owe), OrDash(s.halo), OrDash(s.whole), OrDash(s.wait, "; "));
  return out;
}

constexpr std::string_view kIntroduction = R"(# Ops

All ops that a program may contain, by family, made from their rows in `ops/` (`ir/row.h`). `meshwork ops` prints this
page, `meshwork ops --op NAME` describes one op. Composite functions – softmax, norms, losses, optimizers and more – are
built from these ops (`ops/ops.h`, `train/optim/optimizers.h`), so they are sharded as their parts are.

Each family has two tables. The first states what an op computes, its attributes with their defaults, the dtypes that it
takes, and whether it has a gradient. *zero* means that the gradient is zero: the op is a step function or gives whole
numbers.

The second table states how an op may be sharded, for sample operands. A *rule* gives each dim a letter, and dims with
the same letter are sharded alike. A mark behind a letter says more: `!` the dim stays whole; `^` the dim stays whole, or
the op runs block by block and passes a summary from device to device; `~` the op reads the dim through windows. `1`
stands for a dim that is cut or stretched. The other columns list the letters by what it costs to shard them:

| column | cost of sharding these dims |
|---|---|
| stays sharded | nothing |
| owes | each device holds one term of every result: an all-reduce, or a reduce-scatter where the result is sharded again; or nothing yet, if the next op may wait |
| halo | the edges of the neighbours' blocks are sent before the op |
| whole | a gather before the op |
| may wait | reductions that an operand may owe and the result then owes instead, so that they are paid later, or once for several ops; with several operands, which of them may owe |

A reshape can do more than its rule says: wherever the layout has an equal in the other shape, strided layouts included,
nothing is sent ([layouts](layouts.md)).

Sums of bf16 are made in float and rounded once: over devices, where terms that are owed are kept and sent as f32, over the
iterations of a scan, and by the collectives of a manual region. Long sums of f32 – products, reductions, gradients by filters –
are made in parts on CPUs, each in float, and the parts are added in double: four million terms that are alike add up to within
3e-5 of the sum. What may differ between meshes where numbers are infinite or
NaN is said in
[limitations.md](limitations.md#numbers-that-depend-on-the-mesh).

)";

}  // namespace

std::string OpsReference() {
  std::string out(kIntroduction);
  for (const OpFamily& family : OpFamilies()) {
    Names names;
    for (const OpRow& row : family.rows) names.push_back(fmt::format("`{}`", row.name));
    out += fmt::format("- [{}](#{}): {}\n", family.title, Anchor(family.title), Joined(names));
  }
  for (const OpFamily& family : OpFamilies())
    out += fmt::format("\n## {}\n\n{}{}", family.title, OpsTable(family.rows), ShardingTable(family.rows));
  return out;
}

std::string Describe(const OpRow& row) {
  std::string out = fmt::format("{}: {}\n", row.name, row.doc);
  const auto add = [&](std::string_view name, const Names& names) {
    if (!names.empty()) out += fmt::format("  {:<14} {}\n", name, Joined(names, "; "));
  };
  add("attributes", AttributesOf(row));
  if (row.kind == OpKind::kCompute) add("takes", DTypesOf(row));
  add("gradient", {GradientOf(row)});
  for (const Sharding& s : ShardingsOf(row)) {
    out += fmt::format("  of {}: {}\n", s.sample, s.rule);
    add("  stays sharded", s.stay);
    add("  owes", s.owe);
    add("  halo", s.halo);
    add("  whole", s.whole);
    add("  may wait", s.wait);
  }
  return out;
}

}  // namespace meshwork
