#include "meshwork/ir/registry.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/sample.h"

namespace meshwork {
namespace {

// All rows at one moment.
struct Rows {
  std::vector<const OpRow*> all;
  std::map<std::string_view, const OpRow*> index;

  // Replaces a row of the same name.
  void Add(const OpRow* row) {
    const auto [it, is_new] = index.try_emplace(row->name, row);
    if (is_new) {
      all.push_back(row);
      return;
    }
    std::replace(all.begin(), all.end(), it->second, row);
    index.erase(it);  // whose key is the other row's
    index.emplace(row->name, row);
  }
};

const Rows& BuiltIn() {
  static const Rows* rows = [] {
    auto* built_in = new Rows;
    for (const OpFamily& family : OpFamilies()) {
      for (const OpRow& row : family.rows) {
        MESHWORK_CHECK(!built_in->index.contains(row.name), "{}", row.name);
        built_in->Add(&row);
      }
    }
    return built_in;
  }();
  return *rows;
}

// The registered rows, kept for the life of the process. Rows that a reader may have seen are never changed
// or freed, so that readers need no lock.
struct Registered {
  std::mutex mutex;               // of those who register
  std::deque<std::string> texts;  // what the rows' string_views name
  std::deque<OpRow> rows;
  std::deque<Rows> versions;
  std::atomic<const Rows*> latest = &BuiltIn();
};

Registered& TheRegistered() {
  static auto* registered = new Registered;
  return *registered;
}

thread_local const Rows* rows_of_thread = nullptr;  // of a TrialRow

const Rows& CurrentRows() {
  if (rows_of_thread != nullptr) return *rows_of_thread;
  return *TheRegistered().latest.load(std::memory_order_acquire);
}

// ---- What a row from outside has to be.

// Whether the parser reads `name` as one word.
bool IsWord(std::string_view name) {
  return !name.empty() && absl::ascii_isalpha(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

absl::Status CheckParts(const OpRow& row) {
  std::vector<std::string_view> missing;
  if (row.doc.empty()) missing.push_back("doc");
  if (row.infer == nullptr) missing.push_back("infer");
  if (row.rule == nullptr) missing.push_back("rule");
  if (row.cpu == nullptr) missing.push_back("cpu");
  if (row.samples.empty()) missing.push_back("samples");
  if (missing.empty()) return absl::OkStatus();
  return InvalidArgument("the row has no {}; each has doc, infer, rule, cpu and samples.",
                         fmt::join(missing, ", "));
}

absl::Status CheckCounts(const OpRow& row) {
  constexpr int kMost = 64;
  if (row.kind != OpKind::kCompute)
    return InvalidArgument("its kind is not OpKind::kCompute; others are the compiler's own.");
  if (row.num_regions != 0)
    return InvalidArgument("it has {}; only loops and branches have regions.",
                           Count(row.num_regions, "region"));
  const bool any = row.num_operands == -1 && row.optional_operands == 0;
  const bool some = row.num_operands >= 0 && row.optional_operands >= 0 && row.num_operands <= kMost &&
                    row.optional_operands <= kMost - row.num_operands;
  if (!any && !some)
    return InvalidArgument(
        "num_operands is {} and optional_operands {}; there are 0 to {} in all, or any number (-1 and 0).",
        row.num_operands, row.optional_operands, kMost);
  if (row.num_results < 1 || row.num_results > kMost)
    return InvalidArgument("num_results is {}; there are 1 to {}.", row.num_results, kMost);
  const int operands = any ? kMost : row.num_operands + row.optional_operands;
  for (int operand : row.in_place)
    if (operand < -1 || operand >= operands || std::ssize(row.in_place) > row.num_results)
      return InvalidArgument("in_place is [{}]; it has an operand or -1 for each result.",
                             fmt::join(row.in_place, ", "));
  if (row.is_view && (row.num_operands != 1 || row.optional_operands != 0 || row.num_results != 1))
    return InvalidArgument("is_view: a view has one operand and one result.");
  if (!(row.sample_low < row.sample_high) || row.sample_int_low >= row.sample_int_high)
    return InvalidArgument("sample values are drawn from [{}, {}) and [{}, {}), of which one is empty.",
                           row.sample_low, row.sample_high, row.sample_int_low, row.sample_int_high);
  return absl::OkStatus();
}

absl::Status CheckAttrs(const OpRow& row) {
  std::set<std::string_view> names;
  for (const AttrSpec& spec : row.attrs) {
    if (!IsWord(spec.name) || !names.insert(spec.name).second)
      return InvalidArgument(
          "attribute \"{}\": a name is a letter followed by letters, digits and _, and stands once.",
          spec.name);
    if (spec.fallback.has_value() && spec.fallback->index() != static_cast<size_t>(spec.kind))
      return InvalidArgument("attribute \"{}\": its fallback is of another kind.", spec.name);
  }
  return absl::OkStatus();
}

// Letters for every dim, or MakeRule would have died.
absl::Status CheckRule(const Sample& sample) {
  const Rule rule = sample.rule();
  auto fits = [&](const std::vector<LetterList>& letters, const std::vector<Type>& types) {
    return std::equal(
        letters.begin(), letters.end(), types.begin(), types.end(),
        [](const LetterList& list, const Type& type) { return list.size() == type.shape.size(); });
  };
  if (fits(rule.operands, sample.operands) && fits(rule.results, sample.results)) return absl::OkStatus();
  return InvalidArgument("the rule {} has not a letter for each dim.", rule.ToString());
}

}  // namespace

const std::vector<const OpRow*>& AllOps() { return CurrentRows().all; }

absl::StatusOr<const OpRow*> FindOp(std::string_view name) {
  const Rows& rows = CurrentRows();
  const auto it = rows.index.find(name);
  if (it != rows.index.end()) return it->second;
  std::vector<std::string> names;
  for (const OpRow* row : rows.all) names.emplace_back(row->name);
  return InvalidArgument("there is no op \"{}\"{}", name, InsteadOfOp(name, names));
}

const OpRow& GetOp(std::string_view name) {
  const Rows& rows = CurrentRows();
  const auto it = rows.index.find(name);
  MESHWORK_CHECK(it != rows.index.end(), "op {}", name);
  return *it->second;
}

struct TrialRow::View {
  Rows rows;
  const Rows* before;
};

TrialRow::TrialRow(const OpRow& row) {
  const auto it = CurrentRows().index.find(row.name);
  if (it != CurrentRows().index.end() && it->second == &row) return;
  view_ = std::make_unique<View>(View{CurrentRows(), rows_of_thread});
  view_->rows.Add(&row);
  rows_of_thread = &view_->rows;
}

TrialRow::~TrialRow() {
  if (view_ != nullptr) rows_of_thread = view_->before;
}

absl::Status CheckRow(const OpRow& row) {
  if (!IsWord(row.name))
    return InvalidArgument("an op's name is a letter followed by letters, digits and _.");
  MESHWORK_RETURN_IF_ERROR(CheckParts(row));
  MESHWORK_RETURN_IF_ERROR(CheckCounts(row));
  MESHWORK_RETURN_IF_ERROR(CheckAttrs(row));
  for (std::string_view text : row.samples) {
    const absl::StatusOr<Sample> sample = ParseSample(row, text);
    const absl::Status status = sample.ok() ? CheckRule(*sample) : sample.status();
    if (!status.ok()) return Annotate(status, fmt::format("sample \"{}\": ", text));
  }
  return absl::OkStatus();
}

absl::Status RegisterOp(OpRow row) {
  const std::string where = fmt::format("RegisterOp \"{}\": ", row.name);
  if (absl::Status status = CheckRow(row); !status.ok()) return Annotate(status, where);
  Registered& registered = TheRegistered();
  const std::lock_guard lock(registered.mutex);
  const Rows& before = *registered.latest.load(std::memory_order_relaxed);
  if (before.index.contains(row.name))
    return InvalidArgument("{}there is an op of this name; choose another.", where);
  auto keep = [&](std::string_view& text) { text = registered.texts.emplace_back(text); };
  keep(row.name);
  keep(row.doc);
  keep(row.scalar);
  for (AttrSpec& spec : row.attrs) keep(spec.name);
  for (std::string_view& sample : row.samples) keep(sample);
  Rows& rows = registered.versions.emplace_back(before);
  rows.Add(&registered.rows.emplace_back(std::move(row)));
  registered.latest.store(&rows, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace meshwork
