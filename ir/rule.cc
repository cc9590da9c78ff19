#include "meshwork/ir/rule.h"

#include <algorithm>
#include <utility>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

struct TermReader {
  std::string_view text;
  Rule& rule;

  // Reads one term ("mk") against the shape of its value.
  LetterList Read(const Type& type) {
    LetterList list;
    for (size_t i = 0; i < text.size(); ++i) {
      const char name = text[i];
      if (name == '!' || name == '^') continue;
      MESHWORK_CHECK(list.size() < type.shape.size(), "rule term {} for {}", text, type.ToString());
      const int64_t size = type.shape[list.size()];
      if (name == '1') {
        list.push_back(kNoLetter);
        continue;
      }
      int found = kNoLetter;
      for (size_t l = 0; l < rule.letters.size(); ++l)
        if (rule.letters[l].name == name) found = static_cast<int>(l);
      if (found == kNoLetter) {
        found = static_cast<int>(rule.letters.size());
        rule.letters.push_back({.name = name, .size = size, .reduced = true});
      }
      MESHWORK_CHECK(rule.letters[found].size == size, "letter {} of term {}", name, text);
      const char mark = i + 1 < text.size() ? text[i + 1] : ' ';
      if (mark == '!' || mark == '^') rule.letters[found].whole = true;
      if (mark == '^') rule.letters[found].carried = true;
      list.push_back(found);
    }
    MESHWORK_CHECK(list.size() == type.shape.size(), "rule term {} for {}", text, type.ToString());
    return list;
  }
};

using Terms = absl::InlinedVector<std::string_view, 4>;

Terms Split(std::string_view text) {
  Terms terms;
  while (true) {
    const size_t comma = text.find(',');
    terms.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return terms;
    text.remove_prefix(comma + 1);
  }
}

std::string Join(const Rule& rule, const std::vector<LetterList>& lists, bool are_operands) {
  std::string out;
  for (size_t i = 0; i < lists.size(); ++i) {
    if (i > 0) out += ',';
    for (size_t d = 0; d < lists[i].size(); ++d) {
      const int letter = lists[i][d];
      if (letter == kNoLetter) {
        out += '1';
        continue;
      }
      out += rule.letters[letter].name;
      if (rule.letters[letter].whole) out += rule.letters[letter].carried ? '^' : '!';
      if (are_operands && rule.FindWindow(i, d) != nullptr) out += '~';
    }
  }
  return out;
}

bool Takes(Which which, size_t i) {
  if (which == Which::kFirst) return i == 0;
  return i != 0 || (which != Which::kAllButFirst && which != Which::kOneButFirst);
}

bool Allows(Which which, size_t count, size_t operands) {
  switch (which) {
    case Which::kAll: return count == operands;
    case Which::kAllButFirst: return count == operands - 1;
    case Which::kAny: return count > 0;
    case Which::kOne:
    case Which::kFirst:
    case Which::kOneButFirst: break;
  }
  return count == 1;
}

}  // namespace

Passes MovesElements(Which operands) {
  Passes passes;
  for (ReduceOp op : kAllReduceOps) passes.push_back({operands, op, op});
  return passes;
}

Passes Increasing() {
  return {{Which::kAll, ReduceOp::kMax, ReduceOp::kMax}, {Which::kAll, ReduceOp::kMin, ReduceOp::kMin}};
}

Passes Decreasing() {
  return {{Which::kAll, ReduceOp::kMax, ReduceOp::kMin}, {Which::kAll, ReduceOp::kMin, ReduceOp::kMax}};
}

Passes operator+(Passes a, const Passes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::optional<PartialSet> Rule::PassOn(std::span<const PartialSet> operands, AxisSet sharded) const {
  const PartialSet* owed = nullptr;
  size_t count = 0;
  for (const PartialSet& set : operands) {
    if (set.empty()) continue;
    if (owed != nullptr && set != *owed) return std::nullopt;
    owed = &set;
    ++count;
  }
  if (owed == nullptr) return PartialSet();
  for (const Partial& partial : *owed)
    if (sharded.Contains(partial.axis)) return std::nullopt;
  for (const PartialPass& pass : passes) {
    if (pass.in != owed->front().op || !Allows(pass.operands, count, operands.size())) continue;
    bool fits = true;
    for (size_t i = 0; i < operands.size(); ++i) fits &= operands[i].empty() || Takes(pass.operands, i);
    if (!fits) continue;
    PartialSet result = *owed;
    for (Partial& partial : result) partial.op = pass.out;
    return result;
  }
  return std::nullopt;
}

Rule MakeRule(std::string_view text, const std::vector<Type>& operands, const std::vector<Type>& results,
              Passes passes, ReduceOp reduce) {
  Rule rule;
  rule.passes = std::move(passes);
  rule.reduce = reduce;
  const size_t arrow = text.find("->");
  MESHWORK_CHECK(arrow != std::string_view::npos, "rule {}", text);
  const Terms sources = operands.empty() ? Terms{} : Split(text.substr(0, arrow));
  const Terms targets = Split(text.substr(arrow + 2));
  MESHWORK_CHECK(sources.size() == operands.size() && targets.size() == results.size(), "rule {}", text);
  rule.letters.reserve(4);  // more in few rules
  rule.operands.reserve(sources.size());
  rule.results.reserve(targets.size());
  for (size_t i = 0; i < sources.size(); ++i)
    rule.operands.push_back(TermReader{sources[i], rule}.Read(operands[i]));
  for (size_t i = 0; i < targets.size(); ++i) {
    rule.results.push_back(TermReader{targets[i], rule}.Read(results[i]));
    for (int letter : rule.results.back())
      if (letter != kNoLetter) rule.letters[letter].reduced = false;
  }
  return rule;
}

void Rule::AddWindow(int operand, int dim, char letter, const Window& window) {
  MESHWORK_CHECK(operands[operand][dim] == kNoLetter, "dim {} of operand {} has a letter", dim, operand);
  const auto found =
      std::find_if(letters.begin(), letters.end(), [&](const Letter& l) { return l.name == letter; });
  MESHWORK_CHECK(found != letters.end(), "no letter {}", letter);
  found->windowed = true;
  operands[operand][dim] = static_cast<int>(found - letters.begin());
  windows.push_back({operand, dim, window});
}

const Window* Rule::FindWindow(size_t operand, size_t dim) const {
  for (const WindowedDim& w : windows)
    if (static_cast<size_t>(w.operand) == operand && static_cast<size_t>(w.dim) == dim) return &w.window;
  return nullptr;
}

std::string Rule::ToString() const {
  return Join(*this, operands, true) + "->" + Join(*this, results, false);
}

}  // namespace meshwork
