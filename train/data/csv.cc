// Csv.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/train/data/file_source.h"
#include "meshwork/train/data/pipeline_files.h"

namespace meshwork {
namespace {

using internal::ByteReader;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

template <typename T>
std::optional<T> NumberIn(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The value of type `dtype` that stands for a missing one; nothing: `dtype` does not hold `missing`.
std::optional<Tensor> MissingValue(DType dtype, double missing) {
  return Dispatch(dtype, [&](auto zero) -> std::optional<Tensor> {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (std::trunc(missing) != missing || std::abs(missing) > 0x1p53) return std::nullopt;
      const auto whole = static_cast<int64_t>(missing);
      if (static_cast<int64_t>(static_cast<T>(whole)) != whole) return std::nullopt;
    }
    return Tensor::From<T>({}, {static_cast<T>(missing)});
  });
}

std::optional<Tensor> NumberTensor(DType dtype, std::string_view text) {
  const auto tensor = [&](auto number) -> std::optional<Tensor> {
    using T = typename decltype(number)::value_type;
    return number.has_value() ? std::optional(Tensor::From<T>({}, {*number})) : std::nullopt;
  };
  switch (dtype) {
    case DType::kF32: return tensor(NumberIn<float>(text));
    case DType::kF64: return tensor(NumberIn<double>(text));
    case DType::kI32: return tensor(NumberIn<int32_t>(text));
    default: return tensor(NumberIn<int64_t>(text));
  }
}

class CsvReader : public internal::FormatReader {
 public:
  explicit CsvReader(std::shared_ptr<const CsvOptions> options) : options_(std::move(options)) {}

  absl::Status Begin(ByteReader& in, int64_t& number) override {
    MESHWORK_RETURN_IF_ERROR(LeaveOutMark(in));
    std::vector<std::string> names = options_->names;
    if (names.empty()) {
      MESHWORK_ASSIGN_OR_RETURN(const bool is_there, ReadRecord(in, number));
      if (!is_there)
        return InvalidArgument("{}: has no line with the names of columns; give the names if there is none.",
                               in.path());
      for (const std::string& field : fields_) names.emplace_back(Trimmed(field));
    }
    num_fields_ = names.size();
    return FindColumns(in.path(), names);
  }

  absl::StatusOr<std::optional<Example>> Next(ByteReader& in, int64_t& number) override {
    MESHWORK_ASSIGN_OR_RETURN(const bool is_there, ReadRecord(in, number));
    if (!is_there) return std::nullopt;
    if (fields_.size() != num_fields_)
      return InvalidArgument("{}:{}: the record has {}, and the file {}; is the delimiter '{}'?", in.path(),
                             line_, Count(std::ssize(fields_), "field"),
                             Count(static_cast<int64_t>(num_fields_), "column"), options_->delimiter);
    Example example;
    for (const Wanted& wanted : wanted_) {
      const absl::Status read = Read(wanted, fields_[wanted.field], example);
      if (!read.ok()) return Annotate(read, fmt::format("{}:{}: ", in.path(), line_));
    }
    return example;
  }

 private:
  struct Wanted {
    CsvColumn column;
    size_t field;
  };

  static absl::Status LeaveOutMark(ByteReader& in) {
    MESHWORK_ASSIGN_OR_RETURN(const int first, in.Peek());
    if (first != 0xEF) return absl::OkStatus();
    std::string mark;
    MESHWORK_RETURN_IF_ERROR(in.Append(3, mark).status());
    if (mark == "\xEF\xBB\xBF") return absl::OkStatus();
    return InvalidArgument("{}: begins with byte 0xef, and no byte order mark; the file must be UTF-8.",
                           in.path());
  }

  absl::Status FindColumns(const std::string& path, const std::vector<std::string>& names) {
    std::unordered_map<std::string_view, size_t> places;
    std::unordered_set<std::string_view> repeated;
    for (size_t i = 0; i < names.size(); ++i)
      if (!places.try_emplace(names[i], i).second) repeated.insert(names[i]);
    std::vector<CsvColumn> columns = options_->columns;
    if (columns.empty())
      for (const std::string& name : names) columns.push_back({.name = name});
    for (CsvColumn& column : columns) {
      const auto found = places.find(column.name);
      if (found == places.end())
        return InvalidArgument("{}: there is no column {}{}", path, Quoted(column.name),
                               DidYouMeanOneOf(column.name, names, "columns"));
      if (repeated.contains(column.name))
        return InvalidArgument(
            "{}: two columns are called {}; the names of those that are read must be unique.", path,
            Quoted(column.name));
      wanted_.push_back({std::move(column), found->second});
    }
    return absl::OkStatus();
  }

  // Reads a record into fields_. False: there is none. Leaves out empty lines.
  absl::StatusOr<bool> ReadRecord(ByteReader& in, int64_t& number) {
    for (;;) {
      MESHWORK_ASSIGN_OR_RETURN(const int byte, in.Peek());
      if (byte < 0) return false;
      line_ = ++number;
      fields_.assign(1, "");
      bytes_ = 0;
      while (true) {
        MESHWORK_ASSIGN_OR_RETURN(const bool goes_on, ReadField(in, number));
        if (!goes_on) break;
        fields_.emplace_back();
      }
      if (bytes_ > 0) return true;
    }
  }

  // Reads the last of fields_. False: the record ends with it.
  absl::StatusOr<bool> ReadField(ByteReader& in, int64_t& number) {
    std::string& field = fields_.back();
    MESHWORK_ASSIGN_OR_RETURN(int byte, in.Peek());
    const bool is_quoted = byte == '"';
    if (is_quoted) {
      MESHWORK_ASSIGN_OR_RETURN(byte, ReadQuoted(in, number, field));
    } else {
      MESHWORK_ASSIGN_OR_RETURN(byte, ReadBare(in, field));
    }
    for (;;) {
      if (byte == '\r') {
        MESHWORK_ASSIGN_OR_RETURN(const int next, in.Peek());
        if (next == '\n' || next < 0) {
          MESHWORK_ASSIGN_OR_RETURN(byte, in.Get());
        }
      }
      if (byte < 0 || byte == '\n') return false;
      MESHWORK_RETURN_IF_ERROR(CountBytes(in.path(), 1));
      if (byte == options_->delimiter) return true;
      if (is_quoted)
        return InvalidArgument(
            "{}:{}: a closing quote is followed by {}; a delimiter or the end of the line must be "
            "there, and a quote within quotes is written twice.",
            in.path(), number, Quoted(std::string(1, static_cast<char>(byte))));
      field += static_cast<char>(byte);  // a '\r' alone
      MESHWORK_ASSIGN_OR_RETURN(byte, ReadBare(in, field));
    }
  }

  // Reads what stands in front of a delimiter or a line end; returns the byte behind it.
  absl::StatusOr<int> ReadBare(ByteReader& in, std::string& field) {
    const char stops[] = {options_->delimiter, '\n', '\r'};
    MESHWORK_ASSIGN_OR_RETURN(const int64_t read, in.AppendUntil({stops, sizeof(stops)}, BytesLeft(), field));
    MESHWORK_RETURN_IF_ERROR(CountBytes(in.path(), read));
    return in.Get();
  }

  // Reads what stands in quotes; returns the byte behind it.
  absl::StatusOr<int> ReadQuoted(ByteReader& in, int64_t& number, std::string& field) {
    MESHWORK_ASSIGN_OR_RETURN(int byte, in.Get());
    MESHWORK_RETURN_IF_ERROR(CountBytes(in.path(), 1));
    for (const int64_t first_line = number;;) {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t read, in.AppendUntil("\"\n", BytesLeft(), field));
      MESHWORK_RETURN_IF_ERROR(CountBytes(in.path(), read));
      MESHWORK_ASSIGN_OR_RETURN(byte, in.Get());
      if (byte == '"') {
        MESHWORK_ASSIGN_OR_RETURN(byte, in.Peek());
        if (byte != '"') return in.Get();
        MESHWORK_RETURN_IF_ERROR(in.Get().status());
      }
      if (byte < 0)
        return InvalidArgument("{}:{}: a quote is opened here and not closed up to the end of the file.",
                               in.path(), first_line);
      MESHWORK_RETURN_IF_ERROR(CountBytes(in.path(), 1));
      if (byte == '\n') ++number;
      field += static_cast<char>(byte);
    }
  }

  // How many bytes may follow; 1 if none may, and reading it is an error.
  int64_t BytesLeft() const { return options_->longest - std::min(bytes_, options_->longest - 1); }
  absl::Status CountBytes(const std::string& path, int64_t bytes) {
    bytes_ += bytes;
    if (bytes_ <= options_->longest) return absl::OkStatus();
    return InvalidArgument(
        "{}:{}: the record has more than {}; is a quote not closed? If not, allow longer records.", path,
        line_, Count(options_->longest, "byte"));
  }

  absl::Status Read(const Wanted& wanted, std::string& field, Example& example) const {
    const CsvColumn& column = wanted.column;
    if (column.is_text) {
      example.AddText({column.name, std::make_shared<const std::string>(std::move(field))});
      return absl::OkStatus();
    }
    const std::string_view text = Trimmed(field);
    const std::vector<std::string>& marks = options_->missing;
    std::optional<Tensor> number;
    if (std::find(marks.begin(), marks.end(), text) == marks.end()) {
      number = NumberTensor(column.dtype, text);
      if (!number.has_value())
        return InvalidArgument(
            "column {} is {}, which is no {}; read it as text and make a number of it by Map, or name it among "
            "the marks of missing values.",
            Quoted(column.name), Quoted(text), DTypeName(column.dtype));
    } else if (column.missing.has_value()) {
      number = MissingValue(column.dtype, *column.missing);
    } else {
      return InvalidArgument("column {} has no value ({}); say what it is then by CsvColumn::missing.",
                             Quoted(column.name), Quoted(text));
    }
    example.AddColumn(column.name, *std::move(number));
    return absl::OkStatus();
  }

  const std::shared_ptr<const CsvOptions> options_;
  std::vector<Wanted> wanted_;
  size_t num_fields_ = 0;

  // The fields of the record that is being read.
  std::vector<std::string> fields_;
  int64_t line_ = 0;   // its first
  int64_t bytes_ = 0;  // without line ends
};

absl::Status CheckOptions(const CsvOptions& options) {
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r')
    return InvalidArgument("Csv: the delimiter is a quote or a line end; give another byte.");
  std::unordered_set<std::string_view> asked;
  for (const CsvColumn& column : options.columns) {
    if (!asked.insert(column.name).second)
      return InvalidArgument("Csv: column {} is asked for twice; a Map can give it another name.",
                             Quoted(column.name));
    if (column.is_text) continue;
    if (column.dtype == BF16 || column.dtype == BOOL || IsStorage(column.dtype))
      return InvalidArgument("Csv: column \"{}\" is asked for as {}; it can be f32, f64, i32, i64 or text.",
                             column.name, DTypeName(column.dtype));
    if (column.missing.has_value() && !MissingValue(column.dtype, *column.missing).has_value())
      return InvalidArgument("Csv: column \"{}\" is {} where a value is missing, which is no {}.",
                             column.name, *column.missing, DTypeName(column.dtype));
  }
  return absl::OkStatus();
}

}  // namespace

Pipeline Csv(std::vector<std::string> paths, CsvOptions options) {
  if (const absl::Status wrong = CheckOptions(options); !wrong.ok()) return internal::PipelineOf(wrong);
  auto shared = std::make_shared<const CsvOptions>(std::move(options));
  return internal::PipelineOf(internal::FileSource("Csv", "csv", std::move(paths),
                                                   [=] { return std::make_unique<CsvReader>(shared); }));
}

}  // namespace meshwork
