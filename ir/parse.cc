// A recursive-descent parser of the text form; one pass, no backtracking. It reads functions, bodies and
// statements. Other files read the pieces of a statement: ir/text_reader.h, type_reader.h, attr_reader.h.
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/ir/attr_reader.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/ir/text_reader.h"
#include "meshwork/ir/type_reader.h"
#include "meshwork/ir/written_node.h"

namespace meshwork {
namespace {

constexpr std::string_view kNameRule =
    "a name is a letter followed by letters, digits and any of _ . / - (no //), as in dense1/kernel.";

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text, file), file_(file), graph_(Mesh()) {}

  absl::StatusOr<Graph> Parse() {
    MESHWORK_RETURN_IF_ERROR(ParseMesh());
    MESHWORK_RETURN_IF_ERROR(text_.Keyword("func"));
    MESHWORK_ASSIGN_OR_RETURN(graph_.name, text_.Word("a function name"));
    MESHWORK_RETURN_IF_ERROR(ParseArguments());
    MESHWORK_RETURN_IF_ERROR(ParseStatements());
    if (!text_.IsAtEnd()) return text_.Fail("expected the end of the program");
    MESHWORK_RETURN_IF_ERROR(FinishLocal());
    return std::move(graph_);
  }

 private:
  // The statements between braces.
  absl::Status ParseStatements() {
    MESHWORK_RETURN_IF_ERROR(text_.Take('{'));
    bool returned = false;
    while (!text_.TryTake('}')) {
      if (text_.Peek() == '%') {
        if (returned) return text_.Fail("expected }: nothing follows the return");
        MESHWORK_RETURN_IF_ERROR(ParseNode());
        continue;
      }
      const size_t start = text_.at();
      MESHWORK_ASSIGN_OR_RETURN(std::string word, text_.Word("%, update, return or }"));
      if (word == "update" && !returned) {
        MESHWORK_RETURN_IF_ERROR(ParseUpdate());
      } else if (word == "return" && !returned) {
        MESHWORK_RETURN_IF_ERROR(ParseReturn());
        returned = true;
      } else {
        text_.GoTo(start);
        if (returned) return text_.Fail("expected }: nothing follows the return");
        return text_.Fail("expected %, update, return or }", {"update", "return"});
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseMesh() {
    MESHWORK_RETURN_IF_ERROR(text_.Keyword("mesh"));
    const size_t start = text_.SkipSpace();
    MESHWORK_ASSIGN_OR_RETURN(std::string_view inside, text_.Bracketed('[', ']'));
    absl::StatusOr<Mesh> mesh = Mesh::Parse(inside);
    if (!mesh.ok()) return text_.FailAt(start, MessageOf(mesh.status()));
    graph_ = Graph(*std::move(mesh));
    return absl::OkStatus();
  }

  absl::StatusOr<ValueId> ValueUse() {
    const size_t start = text_.SkipSpace();
    MESHWORK_ASSIGN_OR_RETURN(std::string name, text_.ValueName());
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, id] : ids_) known.push_back("%" + key);
    // A name of one character has none in common with another.
    const std::string hint = name.size() > 1 ? DidYouMean("%" + name, known) : "";
    return text_.FailAt(start, fmt::format("%{} is not defined above{}", name, hint.empty() ? "." : hint));
  }
  absl::Status Define(size_t at, const std::string& name, ValueId id) {
    if (ids_.emplace(name, id).second) return absl::OkStatus();
    return text_.FailAt(at, fmt::format("%{} is defined twice; names are unique.", name));
  }
  static bool IsNumbered(const std::string& name) {
    return std::all_of(name.begin(), name.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
  }

  // ---- Statements.

  absl::Status ParseArguments() {
    MESHWORK_RETURN_IF_ERROR(text_.Take('('));
    if (text_.TryTake(')')) return absl::OkStatus();
    do {
      const bool is_variable = text_.TryWord("var");
      const size_t start = text_.SkipSpace();
      MESHWORK_ASSIGN_OR_RETURN(std::string name, text_.ValueName());
      MESHWORK_RETURN_IF_ERROR(text_.Take(':'));
      MESHWORK_ASSIGN_OR_RETURN(Annotation a, ReadAnnotation(text_, graph_, is_variable));
      is_local_ |= a.global.has_value();
      if (IsNumbered(name))
        return text_.FailAt(start, fmt::format("argument %{} needs a name, not a number.", name));
      if (!IsArgumentName(name)) return text_.FailAt(start, fmt::format("argument %{}: {}", name, kNameRule));
      const ValueId id = graph_.AddArgument({.name = name,
                                             .type = a.type,
                                             .global = a.global.value_or(a.type),
                                             .layout = a.layout(),
                                             .modes = a.modes(),
                                             .gather = a.gather,
                                             .location = {file_, text_.LineAt(start)}},
                                            is_variable);
      value_at_.push_back(start);
      MESHWORK_RETURN_IF_ERROR(Define(start, name, id));
    } while (text_.TryTake(','));
    return text_.Take(')');
  }

  // A hint behind an op's error: an operand may have a dtype that the text does not state.
  std::string HintOfDType(const std::vector<ValueId>& operands) const {
    for (ValueId id : operands) {
      const ValueInfo& info = graph_.value(id);
      if (info.node < 0) continue;
      const Node& made = graph_.nodes()[info.node];
      const auto spec = std::find_if(made.row->attrs.begin(), made.row->attrs.end(),
                                     [](const AttrSpec& s) { return s.name == "dtype"; });
      if (!made.operands.empty() || spec == made.row->attrs.end() || !spec->fallback.has_value() ||
          !SameAttr(*spec->fallback, *made.attrs.Find("dtype")))
        continue;
      for (ValueId other : operands)
        if (const DType dtype = graph_.value(other).type.dtype; dtype != info.type.dtype)
          return fmt::format(" {} makes {} where nothing is said; write dtype={} there (line {}).",
                             made.row->name, DTypeName(info.type.dtype), DTypeName(dtype),
                             made.location.line);
    }
    return "";
  }

  // Whether "%a, %b =" comes next.
  bool StartsNode() {
    const size_t start = text_.at();
    do {
      if (!text_.TryTake('%')) break;
      text_.ReadWord("./-");
    } while (text_.TryTake(','));
    const bool starts = text_.Peek() == '=';
    text_.GoTo(start);
    return starts;
  }

  absl::Status ParseNode() {
    const size_t start = text_.SkipSpace();
    std::vector<std::string> names;
    do {
      MESHWORK_ASSIGN_OR_RETURN(std::string name, text_.ValueName());
      names.push_back(std::move(name));
    } while (text_.TryTake(','));
    MESHWORK_RETURN_IF_ERROR(text_.Take('='));
    const size_t op_at = text_.SkipSpace();
    MESHWORK_ASSIGN_OR_RETURN(std::string op, text_.Word("an op"));
    absl::StatusOr<const OpRow*> row = FindOp(op);
    if (!row.ok()) return text_.FailAt(op_at, MessageOf(row.status()));
    WrittenNode written{
        .row = *row,
        .num_results = names.size(),
        .location = {file_, text_.LineAt(op_at)},
    };
    if (text_.Peek() == '%') {
      do {
        MESHWORK_ASSIGN_OR_RETURN(ValueId id, ValueUse());
        written.operands.push_back(id);
      } while (text_.TryTake(','));
      if (text_.Peek() == '%' && !StartsNode()) return text_.Fail("expected , between two operands");
    }
    MESHWORK_ASSIGN_OR_RETURN(written.attrs, ReadAttrs(text_, graph_, **row));
    const Mesh mesh = graph_.mesh();
    for (int r = 0; r < (*row)->num_regions; ++r) {
      if (r > 0) MESHWORK_RETURN_IF_ERROR(text_.Keyword("else"));
      MESHWORK_ASSIGN_OR_RETURN(Graph region, ParseRegion());
      written.regions.push_back(std::make_shared<const Graph>(std::move(region)));
    }
    if (text_.TryTake(':')) {
      do {
        MESHWORK_ASSIGN_OR_RETURN(Annotation annotation, ReadAnnotation(text_, graph_));
        written.annotations.push_back(std::move(annotation));
      } while (text_.TryTake(','));
    }
    // Attributes and layouts that were read before a layout cut the mesh refer to the uncut mesh.
    written.attrs = OnMesh(std::move(written.attrs), mesh, graph_.mesh());
    for (Annotation& a : written.annotations)
      if (a.pin.has_value()) a.pin->layout = a.pin->layout.On(graph_.mesh());
    is_local_ |= written.IsLocal();
    absl::StatusOr<int> node = AddWritten(graph_, written);
    if (!node.ok())
      return text_.FailAt(op_at,
                          fmt::format("{}{}", MessageOf(node.status()), HintOfDType(written.operands)));
    value_at_.resize(graph_.values().size(), op_at);
    for (size_t i = 0; i < names.size(); ++i) {
      const ValueId id = graph_.nodes()[*node].results[i];
      if (!IsNumbered(names[i])) graph_.mutable_value(id).name = names[i];
      MESHWORK_RETURN_IF_ERROR(Define(start, names[i], id));
    }
    return absl::OkStatus();
  }

  // A body: "(var %h: f32[4], %w: f32[6]) { … }". Its names are its own.
  absl::StatusOr<Graph> ParseRegion() {
    if (open_regions_ == kMaxNesting)
      return text_.FailAt(
          text_.at(),
          fmt::format("bodies nest at most {} deep, and this one stands in as many; write some of "
                      "them as one.",
                      kMaxNesting));
    ++open_regions_;
    Graph outer = std::exchange(graph_, Graph(graph_.mesh()));
    graph_.name = "body";
    auto ids = std::exchange(ids_, {});
    auto updated = std::exchange(updated_, {});
    auto value_at = std::exchange(value_at_, {});
    auto update_at = std::exchange(update_at_, {});
    MESHWORK_RETURN_IF_ERROR(ParseArguments());
    MESHWORK_RETURN_IF_ERROR(ParseStatements());
    outer.CutMesh(graph_.mesh());
    ids_ = std::move(ids);
    updated_ = std::move(updated);
    value_at_ = std::move(value_at);
    update_at_ = std::move(update_at);
    --open_regions_;
    return std::exchange(graph_, std::move(outer));
  }

  absl::Status ParseUpdate() {
    const size_t start = text_.SkipSpace();
    MESHWORK_ASSIGN_OR_RETURN(ValueId variable, ValueUse());
    const std::string_view name = text_.Since(start);
    MESHWORK_RETURN_IF_ERROR(text_.Take('='));
    MESHWORK_ASSIGN_OR_RETURN(ValueId value, ValueUse());
    const ValueInfo& old_info = graph_.value(variable);
    // In a text the arguments are the first values.
    const int argument = variable;
    if (argument >= static_cast<int>(graph_.arguments().size()) || !graph_.arguments()[argument].is_variable)
      return text_.FailAt(start, fmt::format("{} is not a variable; only variables keep values.", name));
    if (!updated_.insert(argument).second)
      return text_.FailAt(start, fmt::format("{} is updated twice; a step writes a variable once.", name));
    const ValueInfo& new_info = graph_.value(value);
    auto types = [](const ValueInfo& info) {
      return info.type == info.global ? info.type.ToString()
                                      : fmt::format("{} of {}", info.type.ToString(), info.global.ToString());
    };
    if (old_info.type != new_info.type || old_info.global != new_info.global)
      return text_.FailAt(start, fmt::format("{} is {}, its new value {}; they must agree.", name,
                                             types(old_info), types(new_info)));
    graph_.AddUpdate({argument, value});
    update_at_.push_back(start);
    return absl::OkStatus();
  }

  absl::Status ParseReturn() {
    std::set<std::string> names;
    do {
      const size_t start = text_.SkipSpace();
      std::string name;
      if (text_.Peek() != '%') {
        MESHWORK_ASSIGN_OR_RETURN(name, text_.Word("%value or name=%value", "./-"));
        if (!IsArgumentName(name))
          return text_.FailAt(start, fmt::format("output \"{}\": {}", name, kNameRule));
        MESHWORK_RETURN_IF_ERROR(text_.Take('='));
      }
      MESHWORK_ASSIGN_OR_RETURN(ValueId value, ValueUse());
      if (!name.empty() && !names.insert(name).second)
        return text_.FailAt(start, fmt::format("output \"{}\" is returned twice.", name));
      graph_.AddOutput({name, value});
    } while (text_.TryTake(','));
    return absl::OkStatus();
  }

  // Values without a layout are whole.
  static void MakeWhole(Graph& local) {
    for (size_t v = 0; v < local.values().size(); ++v) {
      ValueInfo& info = local.mutable_value(static_cast<ValueId>(v));
      if (!info.layout.has_value()) info.layout = Layout::Replicated(local.mesh(), info.type.rank());
    }
    for (size_t n = 0; n < local.nodes().size(); ++n) {
      for (std::shared_ptr<const Graph>& region : local.mutable_node(static_cast<int>(n)).regions) {
        Graph inner = *region;
        MakeWhole(inner);
        region = std::make_shared<const Graph>(std::move(inner));
      }
    }
  }

  // In a local program every value has a layout that fits its block; values without one are whole.
  absl::Status FinishLocal() {
    if (!is_local_) return absl::OkStatus();
    for (size_t n = 0; n < graph_.nodes().size(); ++n) {
      for (std::shared_ptr<const Graph>& region : graph_.mutable_node(static_cast<int>(n)).regions) {
        Graph local = *region;
        MakeWhole(local);
        region = std::make_shared<const Graph>(std::move(local));
      }
    }
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      ValueInfo& info = graph_.mutable_value(static_cast<ValueId>(i));
      if (!info.layout.has_value()) info.layout = Layout::Replicated(graph_.mesh(), info.type.rank());
      if (!info.modes.empty())
        return text_.FailAt(
            value_at_[i], fmt::format("{}: a local program says where every dim lies; ? is for global ones.",
                                      LayoutPin{*info.layout, info.modes}.ToString()));
      const bool fits = info.layout->Fits(info.global.shape).ok() && info.global.dtype == info.type.dtype &&
                        info.layout->LocalShape(info.global.shape) == info.type.shape;
      if (!fits)
        return text_.FailAt(value_at_[i],
                            fmt::format("{} is not the block of {} under {}.", info.type.ToString(),
                                        info.global.ToString(), info.layout->ToString()));
    }
    for (size_t i = 0; i < graph_.updates().size(); ++i) {
      const VariableUpdate& update = graph_.updates()[i];
      const ValueInfo& variable = graph_.value(graph_.arguments()[update.argument].value);
      if (*variable.layout != *graph_.value(update.value).layout)
        return text_.FailAt(update_at_[i], fmt::format("%{} is {}, its new value {}; the layouts must agree.",
                                                       variable.name, variable.layout->ToString(),
                                                       graph_.value(update.value).layout->ToString()));
    }
    for (const Node& node : graph_.nodes()) {
      if (absl::Status status = CheckLocalNode(graph_, node); !status.ok())
        return text_.FailAt(value_at_[node.results[0]],
                            fmt::format("{}: {}", node.row->name, MessageOf(status)));
    }
    return absl::OkStatus();
  }

  TextReader text_;
  const SharedText file_;
  Graph graph_;
  std::map<std::string, ValueId> ids_;
  std::set<int> updated_;  // arguments
  bool is_local_ = false;
  int open_regions_ = 0;           // that the next statement stands in
  std::vector<size_t> value_at_;   // per value: where its op, or the argument, stands in the text
  std::vector<size_t> update_at_;  // per update: where the variable stands
};

}  // namespace

absl::StatusOr<Graph> ParseGraph(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).Parse();
}

}  // namespace meshwork
