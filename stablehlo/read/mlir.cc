#include "meshwork/stablehlo/read/mlir.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/base/text_error.h"
#include "meshwork/ir/text_reader.h"

namespace meshwork::mlir {
namespace {

constexpr int kDeepestText = 64;  // regions and attributes in each other
constexpr size_t kLongestAlias = 1000;
constexpr int kMostResults = 4096;  // of one op
constexpr std::string_view kHowToPrint =
    "print it by jax.jit(f).lower(…).compiler_ir(\"stablehlo\").operation.get_asm(print_generic_op_form=True).";

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : text_(text), reader_(text, file) {}

  absl::StatusOr<Module> Parse() {
    Module module;
    MESHWORK_RETURN_IF_ERROR(ReadAliases(module));
    if (reader_.IsAtEnd()) return reader_.FailAt(reader_.at(), "there is no module.");
    const size_t start = reader_.SkipSpace();
    if (reader_.Peek() != '"' && reader_.Peek() != '%')
      return reader_.FailAt(start, fmt::format("this is no module of MLIR in generic form; {}", kHowToPrint));
    MESHWORK_ASSIGN_OR_RETURN(module.op, ReadOp());
    if (module.op.name == "builtin.module" && module.op.regions.size() != 1)
      return reader_.FailAt(module.op.at, "the module is to have one region.");
    if (module.op.name != "builtin.module")
      return reader_.FailAt(module.op.at,
                            fmt::format("expected \"builtin.module\", found \"{}\".", module.op.name));
    MESHWORK_RETURN_IF_ERROR(ReadAliases(module));
    if (!reader_.IsAtEnd()) return reader_.Fail("expected the end of the text");
    return module;
  }

 private:
  // Counts how deep regions and attributes lie in each other while it lives.
  class Depth {
   public:
    explicit Depth(int& depth) : depth_(depth) { ++depth_; }
    ~Depth() { --depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    int& depth_;
  };
  absl::Status CheckDepth() {
    if (depth_ <= kDeepestText) return absl::OkStatus();
    return reader_.FailAt(
        reader_.SkipSpace(),
        fmt::format("more than {} regions or attributes lie in each other here.", kDeepestText));
  }

  // #loc3 = loc(…), between the ops of the top.
  absl::Status ReadAliases(Module& module) {
    while (reader_.TryTake('#')) {
      const std::string name(reader_.ReadWord("."));
      MESHWORK_RETURN_IF_ERROR(reader_.Take('='));
      if (!reader_.TryWord("loc")) {
        const size_t at = reader_.SkipSpace();
        MESHWORK_ASSIGN_OR_RETURN(aliases_[name], ReadAttribute());
        // What is named is copied wherever it is used, which may be often.
        if (!aliases_[name].items.empty() || !aliases_[name].members.empty() ||
            aliases_[name].text.size() > kLongestAlias)
          return reader_.FailAt(
              at, "a list or a long text has no name of its own; print the module without aliases.");
        continue;
      }
      MESHWORK_ASSIGN_OR_RETURN(module.locations[name], ReadParenthesis());
    }
    return absl::OkStatus();
  }

  // "…", with the escapes of MLIR: a backslash and the character, n, t, or two hexadecimal digits.
  absl::StatusOr<std::string> ReadString() {
    const size_t start = reader_.SkipSpace();
    MESHWORK_RETURN_IF_ERROR(reader_.Take('"'));
    std::string content;
    size_t at = reader_.at();
    for (; at < text_.size() && text_[at] != '"'; ++at) {
      if (text_[at] != '\\' || at + 1 >= text_.size()) {
        content += text_[at];
        continue;
      }
      const char next = text_[++at];
      if (next == 'n' || next == 't') {
        content += next == 'n' ? '\n' : '\t';
      } else if (at + 1 < text_.size() && absl::ascii_isxdigit(static_cast<unsigned char>(next)) &&
                 absl::ascii_isxdigit(static_cast<unsigned char>(text_[at + 1]))) {
        int byte = 0;
        std::from_chars(text_.data() + at, text_.data() + at + 2, byte, 16);
        content += static_cast<char>(byte);
        ++at;
      } else {
        content += next;
      }
    }
    if (at >= text_.size()) return reader_.FailAt(start, "the string has no end.");
    reader_.GoTo(at + 1);
    return content;
  }

  // From an opening bracket, which is next, to its closing one; brackets within strings do not count.
  absl::StatusOr<std::string> ReadBrackets(char open, char close) {
    const size_t start = reader_.SkipSpace();
    MESHWORK_RETURN_IF_ERROR(reader_.Take(open));
    const size_t first = reader_.at();
    int depth = 1;
    for (size_t at = first; at < text_.size(); ++at) {
      const char c = text_[at];
      if (c == '"') {
        reader_.GoTo(at);
        MESHWORK_RETURN_IF_ERROR(ReadString().status());
        at = reader_.at() - 1;
      } else if (c == open) {
        ++depth;
      } else if (c == close && !(close == '>' && at > first && text_[at - 1] == '-') && --depth == 0) {
        reader_.GoTo(at + 1);
        return std::string(text_.substr(first, at - first));
      }
    }
    return reader_.FailAt(start, fmt::format("there is no {} for this {}.", close, open));
  }
  absl::StatusOr<std::string> ReadParenthesis() { return ReadBrackets('(', ')'); }

  absl::Status ReadArrow() {
    const size_t start = reader_.SkipSpace();
    if (text_.substr(start, 2) != "->") return reader_.Fail("expected ->");
    reader_.GoTo(start + 2);
    return absl::OkStatus();
  }

  // ---- Types.

  absl::StatusOr<TensorType> ReadType() {
    const size_t start = reader_.SkipSpace();
    if (reader_.Peek() == '!' || reader_.Peek() == '(') return ReadOtherType(start);
    const std::string word(reader_.ReadWord("."));
    if (word.empty()) return reader_.Fail("expected a type");
    if (word != "tensor") {
      reader_.GoTo(start);
      return ReadOtherType(start);
    }
    MESHWORK_ASSIGN_OR_RETURN(const std::string content, ReadBrackets('<', '>'));
    TensorType type = {.element = {}};
    std::string_view rest = content;
    while (true) {
      size_t digits = 0;
      while (digits < rest.size() && absl::ascii_isdigit(static_cast<unsigned char>(rest[digits]))) ++digits;
      const bool is_unknown = digits == 0 && rest.starts_with("?x");
      if (!is_unknown && (digits == 0 || digits >= rest.size() || rest[digits] != 'x')) break;
      int64_t size = -1;
      if (is_unknown) type.is_dynamic = true;
      else if (std::from_chars(rest.data(), rest.data() + digits, size).ec != std::errc())
        return reader_.FailAt(start, "a size of this type is no number of 64 bits.");
      type.shape.push_back(size);
      if (type.rank() > kMaxRank)
        return reader_.FailAt(start, fmt::format("a tensor of more than {} dims is not read.", kMaxRank));
      rest.remove_prefix(is_unknown ? 2 : digits + 1);
    }
    type.element = std::string(rest);
    if (type.element.empty()) return reader_.FailAt(start, "the tensor has no element type.");
    return type;
  }

  absl::StatusOr<TensorType> ReadOtherType(size_t start) {
    if (reader_.Peek() == '(') {
      MESHWORK_RETURN_IF_ERROR(ReadFunctionType(nullptr, nullptr));
    } else {
      (void)reader_.TryTake('!');
      if (reader_.ReadWord(".").empty()) return reader_.Fail("expected a type");
      if (reader_.Peek() == '<') MESHWORK_RETURN_IF_ERROR(ReadBrackets('<', '>').status());
    }
    return TensorType{.element = std::string(reader_.Since(start)), .is_tensor = false};
  }

  // "(A, B)".
  absl::Status ReadTypes(std::vector<TensorType>* types) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take('('));
    if (reader_.TryTake(')')) return absl::OkStatus();
    do {
      const Depth depth(depth_);
      MESHWORK_RETURN_IF_ERROR(CheckDepth());
      MESHWORK_ASSIGN_OR_RETURN(TensorType type, ReadType());
      if (types != nullptr) types->push_back(std::move(type));
    } while (reader_.TryTake(','));
    return reader_.Take(')');
  }

  // "(A, B) -> C", "(A) -> (B, C)". Null: not wanted.
  absl::Status ReadFunctionType(std::vector<TensorType>* operands, std::vector<TensorType>* results) {
    MESHWORK_RETURN_IF_ERROR(ReadTypes(operands));
    MESHWORK_RETURN_IF_ERROR(ReadArrow());
    if (reader_.Peek() == '(') return ReadTypes(results);
    const Depth depth(depth_);
    MESHWORK_RETURN_IF_ERROR(CheckDepth());
    MESHWORK_ASSIGN_OR_RETURN(TensorType type, ReadType());
    if (results != nullptr) results->push_back(std::move(type));
    return absl::OkStatus();
  }

  // ---- Attributes.

  absl::StatusOr<Attribute> ReadAttribute() {
    const Depth depth(depth_);
    MESHWORK_RETURN_IF_ERROR(CheckDepth());
    Attribute attribute{.at = reader_.SkipSpace()};
    const char next = reader_.Peek();
    if (next == '"') {
      attribute.kind = Attribute::Kind::kString;
      MESHWORK_ASSIGN_OR_RETURN(attribute.text, ReadString());
      return attribute;
    }
    if (next == '[') return ReadList(std::move(attribute), '[', ']');
    if (next == '{') return ReadDict(std::move(attribute), '{', '}');
    if (next == '@') return ReadSymbol(std::move(attribute));
    if (next == '#') return ReadDialectAttribute(std::move(attribute));
    if (next == '-' || absl::ascii_isdigit(static_cast<unsigned char>(next)))
      return ReadNumber(std::move(attribute));
    if (next == '(' || next == '!') return ReadTypeAttribute(std::move(attribute));
    const std::string word(reader_.ReadWord("."));
    if (word == "true" || word == "false") {
      attribute.kind = Attribute::Kind::kBool;
      attribute.whole = word == "true" ? 1 : 0;
      return attribute;
    }
    if (word == "unit") return attribute;
    if (word == "array") return ReadArray(std::move(attribute));
    if (word == "dense") return ReadDenseAttribute(std::move(attribute));
    if (word == "dense_resource") {  // elements that the text leaves out
      MESHWORK_ASSIGN_OR_RETURN(attribute, ReadDenseAttribute(std::move(attribute)));
      attribute.kind = Attribute::Kind::kText;
      return attribute;
    }
    reader_.GoTo(attribute.at);
    return ReadTypeAttribute(std::move(attribute));
  }

  absl::StatusOr<Attribute> ReadTypeAttribute(Attribute attribute) {
    attribute.kind = Attribute::Kind::kText;
    MESHWORK_ASSIGN_OR_RETURN(const TensorType type, ReadType());
    attribute.text = type.ToString();
    return attribute;
  }

  // "5", "5 : i64", "1.0e-5 : f32".
  absl::StatusOr<Attribute> ReadNumber(Attribute attribute) {
    size_t end = attribute.at + (text_[attribute.at] == '-' ? 1 : 0);
    const bool is_hex = text_.substr(end, 2) == "0x";
    bool is_real = false;
    for (; end < text_.size(); ++end) {
      const char c = text_[end];
      const bool is_sign = (c == '+' || c == '-') && !is_hex && absl::ascii_tolower(text_[end - 1]) == 'e';
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && !is_sign) break;
      is_real |= !is_hex && (c == '.' || c == 'e' || c == 'E');
    }
    const std::string_view number = text_.substr(attribute.at, end - attribute.at);
    const char* const first = number.data() + (is_hex ? 2 : 0);
    const char* const last = number.data() + number.size();
    attribute.kind = is_real ? Attribute::Kind::kReal : Attribute::Kind::kInt;
    const std::from_chars_result read = is_real
                                            ? std::from_chars(first, last, attribute.real)
                                            : std::from_chars(first, last, attribute.whole, is_hex ? 16 : 10);
    if (read.ec != std::errc() || read.ptr != last)
      return reader_.FailAt(attribute.at, "this is no number of 64 bits.");
    reader_.GoTo(end);
    if (reader_.TryTake(':')) MESHWORK_RETURN_IF_ERROR(ReadType().status());
    return attribute;
  }

  absl::StatusOr<Attribute> ReadSymbol(Attribute attribute) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take('@'));
    attribute.kind = Attribute::Kind::kSymbol;
    if (reader_.Peek() == '"') {
      MESHWORK_ASSIGN_OR_RETURN(attribute.text, ReadString());
    } else {
      MESHWORK_ASSIGN_OR_RETURN(attribute.text, reader_.Word("a name", "$.-"));
    }
    return attribute;
  }

  absl::StatusOr<Attribute> ReadList(Attribute attribute, char open, char close) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take(open));
    attribute.kind = Attribute::Kind::kList;
    if (reader_.TryTake(close)) return attribute;
    do {
      MESHWORK_ASSIGN_OR_RETURN(Attribute item, ReadAttribute());
      attribute.items.push_back(std::move(item));
    } while (reader_.TryTake(','));
    MESHWORK_RETURN_IF_ERROR(reader_.Take(close));
    return attribute;
  }

  // "{name = value, name}"; adds to the members.
  absl::StatusOr<Attribute> ReadDict(Attribute attribute, char open, char close) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take(open));
    attribute.kind = Attribute::Kind::kDict;
    if (reader_.TryTake(close)) return attribute;
    do {
      std::string name;
      const size_t at = reader_.SkipSpace();
      if (reader_.Peek() == '"') {
        MESHWORK_ASSIGN_OR_RETURN(name, ReadString());
      } else {
        MESHWORK_ASSIGN_OR_RETURN(name, reader_.Word("the name of an attribute", "$.-"));
      }
      Attribute value{.at = at};
      if (reader_.TryTake('=')) {
        MESHWORK_ASSIGN_OR_RETURN(value, ReadAttribute());
      }
      attribute.members.emplace_back(std::move(name), std::move(value));
    } while (reader_.TryTake(','));
    MESHWORK_RETURN_IF_ERROR(reader_.Take(close));
    return attribute;
  }

  // "<i64: 1, 2>", behind the word array.
  absl::StatusOr<Attribute> ReadArray(Attribute attribute) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take('<'));
    MESHWORK_RETURN_IF_ERROR(reader_.Word("the type of the elements").status());
    attribute.kind = Attribute::Kind::kList;
    if (reader_.TryTake('>')) return attribute;
    MESHWORK_RETURN_IF_ERROR(reader_.Take(':'));
    do {
      MESHWORK_ASSIGN_OR_RETURN(Attribute item, ReadAttribute());
      attribute.items.push_back(std::move(item));
    } while (reader_.TryTake(','));
    MESHWORK_RETURN_IF_ERROR(reader_.Take('>'));
    return attribute;
  }

  // "<…> : tensor<4xf32>", behind the word dense.
  absl::StatusOr<Attribute> ReadDenseAttribute(Attribute attribute) {
    attribute.kind = Attribute::Kind::kDense;
    MESHWORK_ASSIGN_OR_RETURN(attribute.text, ReadBrackets('<', '>'));
    MESHWORK_RETURN_IF_ERROR(reader_.Take(':'));
    MESHWORK_ASSIGN_OR_RETURN(attribute.type, ReadType());
    return attribute;
  }

  // "#stablehlo<comparison_direction GE>", "#stablehlo.gather<offset_dims = [2]>", an alias.
  absl::StatusOr<Attribute> ReadDialectAttribute(Attribute attribute) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take('#'));
    const std::string name(reader_.ReadWord("."));
    if (reader_.Peek() != '<') {
      const auto found = aliases_.find(name);
      if (found != aliases_.end()) return found->second;
      attribute.kind = Attribute::Kind::kText;
      attribute.text = name;
      return attribute;
    }
    const size_t start = reader_.at();
    MESHWORK_ASSIGN_OR_RETURN(const std::string content, ReadBrackets('<', '>'));
    attribute.kind = Attribute::Kind::kText;
    attribute.text = fmt::format("{}<{}>", name, content);
    const size_t end = reader_.at();
    // Parameters by name.
    const bool has_names = name.starts_with("stablehlo.") && name != "stablehlo.conv";
    if (!has_names) return attribute;
    reader_.GoTo(start);
    const std::string text = attribute.text;
    MESHWORK_ASSIGN_OR_RETURN(Attribute dict, ReadDict(std::move(attribute), '<', '>'));
    dict.text = text;
    if (reader_.at() != end)
      return reader_.FailAt(start, "these parameters are not of the form name = value.");
    return dict;
  }

  // ---- Ops.

  absl::StatusOr<std::string> ReadLocation() {
    if (!reader_.TryWord("loc")) return std::string();
    return ReadParenthesis();
  }

  absl::StatusOr<ValueRef> ReadValue() {
    ValueRef value{.name = {}, .at = reader_.SkipSpace()};
    MESHWORK_RETURN_IF_ERROR(reader_.Take('%'));
    MESHWORK_ASSIGN_OR_RETURN(value.name, reader_.Word("the name of a value", "$.-"));
    if (reader_.at() < text_.size() && text_[reader_.at()] == '#') {
      reader_.GoTo(reader_.at() + 1);
      MESHWORK_ASSIGN_OR_RETURN(const int64_t result, reader_.Int());
      if (result < 0 || result >= kMostResults)
        return reader_.FailAt(value.at, "the number of a result is from 0 to 4095.");
      value.result = static_cast<int>(result);
    }
    return value;
  }

  absl::StatusOr<Op> ReadOp() {
    const Depth depth(depth_);
    MESHWORK_RETURN_IF_ERROR(CheckDepth());
    Op op;
    op.attributes.kind = Attribute::Kind::kDict;
    if (reader_.Peek() == '%') MESHWORK_RETURN_IF_ERROR(ReadResult(op));
    op.at = reader_.SkipSpace();
    if (reader_.Peek() != '"')
      return reader_.FailAt(op.at, fmt::format("expected the name of an op in quotes; {}", kHowToPrint));
    MESHWORK_ASSIGN_OR_RETURN(op.name, ReadString());
    MESHWORK_RETURN_IF_ERROR(reader_.Take('('));
    if (!reader_.TryTake(')')) {
      do {
        MESHWORK_ASSIGN_OR_RETURN(ValueRef operand, ReadValue());
        op.operands.push_back(std::move(operand));
      } while (reader_.TryTake(','));
      MESHWORK_RETURN_IF_ERROR(reader_.Take(')'));
    }
    if (reader_.Peek() == '[')
      return reader_.Fail("an op that branches to blocks is not read: expected < or (");
    if (reader_.TryTake('<')) {
      MESHWORK_ASSIGN_OR_RETURN(op.attributes, ReadDict(std::move(op.attributes), '{', '}'));
      MESHWORK_RETURN_IF_ERROR(reader_.Take('>'));
    }
    if (reader_.TryTake('(')) {
      do {
        MESHWORK_ASSIGN_OR_RETURN(Region region, ReadRegion());
        op.regions.push_back(std::move(region));
      } while (reader_.TryTake(','));
      MESHWORK_RETURN_IF_ERROR(reader_.Take(')'));
    }
    if (reader_.Peek() == '{') {
      MESHWORK_ASSIGN_OR_RETURN(op.attributes, ReadDict(std::move(op.attributes), '{', '}'));
    }
    return ReadOpTypes(std::move(op));
  }

  // "%12 =", "%12:4 =".
  absl::Status ReadResult(Op& op) {
    const size_t start = reader_.at();
    MESHWORK_ASSIGN_OR_RETURN(const ValueRef result, ReadValue());
    op.result = result.name;
    op.num_results = 1;
    if (reader_.TryTake(':')) {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t count, reader_.Int());
      if (count < 1 || count > kMostResults)
        return reader_.FailAt(start, fmt::format("an op has from 1 to {} results.", kMostResults));
      op.num_results = static_cast<int>(count);
    }
    return reader_.Take('=');
  }

  absl::StatusOr<Op> ReadOpTypes(Op op) {
    MESHWORK_RETURN_IF_ERROR(reader_.Take(':'));
    MESHWORK_RETURN_IF_ERROR(ReadFunctionType(&op.operand_types, &op.result_types));
    if (op.operand_types.size() != op.operands.size())
      return reader_.FailAt(
          op.at, fmt::format("the op has {}, and {} for them.", Count(std::ssize(op.operands), "operand"),
                             Count(std::ssize(op.operand_types), "type")));
    if (std::ssize(op.result_types) != op.num_results)
      return reader_.FailAt(op.at,
                            fmt::format("the op has {}, and {} for them.", Count(op.num_results, "result"),
                                        Count(std::ssize(op.result_types), "type")));
    MESHWORK_ASSIGN_OR_RETURN(op.location, ReadLocation());
    return op;
  }

  absl::StatusOr<Region> ReadRegion() {
    const Depth depth(depth_);
    MESHWORK_RETURN_IF_ERROR(CheckDepth());
    Region region{.at = reader_.SkipSpace()};
    MESHWORK_RETURN_IF_ERROR(reader_.Take('{'));
    if (reader_.TryTake('^')) {
      MESHWORK_RETURN_IF_ERROR(reader_.Word("the name of a block").status());
      if (reader_.TryTake('(')) MESHWORK_RETURN_IF_ERROR(ReadArguments(region));
      MESHWORK_RETURN_IF_ERROR(reader_.Take(':'));
    }
    while (!reader_.TryTake('}')) {
      if (reader_.Peek() == '^')
        return reader_.FailAt(reader_.at(),
                              "a region of several blocks is not read; give the module as JAX lowers it.");
      MESHWORK_ASSIGN_OR_RETURN(Op op, ReadOp());
      region.ops.push_back(std::move(op));
    }
    return region;
  }

  absl::Status ReadArguments(Region& region) {
    do {
      MESHWORK_ASSIGN_OR_RETURN(ValueRef value, ReadValue());
      MESHWORK_RETURN_IF_ERROR(reader_.Take(':'));
      MESHWORK_ASSIGN_OR_RETURN(TensorType type, ReadType());
      MESHWORK_ASSIGN_OR_RETURN(std::string location, ReadLocation());
      region.arguments.push_back({std::move(value.name), std::move(type), std::move(location)});
    } while (reader_.TryTake(','));
    return reader_.Take(')');
  }

  std::string_view text_;
  TextReader reader_;
  std::map<std::string, Attribute> aliases_;
  int depth_ = 0;
};

}  // namespace

std::string TensorType::ToString() const {
  if (!is_tensor) return element;
  std::string sizes;
  for (const int64_t size : shape) sizes += size < 0 ? "?x" : fmt::format("{}x", size);
  return fmt::format("tensor<{}{}>", sizes, element);
}

const Attribute* Attribute::Find(std::string_view name) const {
  const auto found =
      std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.first == name; });
  return found == members.end() ? nullptr : &found->second;
}

std::string_view WordOf(const Attribute* attribute) {
  if (attribute == nullptr || attribute->kind != Attribute::Kind::kText || !attribute->text.ends_with('>'))
    return {};
  const std::string_view text = std::string_view(attribute->text).substr(0, attribute->text.size() - 1);
  const size_t space = text.rfind(' ');
  return space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
}

absl::StatusOr<Module> ParseModule(std::string_view text, std::string_view file) {
  return Parser(text, file).Parse();
}

}  // namespace meshwork::mlir
