#include "meshwork/storage/gguf_header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"
#include "meshwork/base/utf8.h"
#include "meshwork/storage/gguf_values.h"
#include "meshwork/storage/show_json.h"

namespace meshwork {
namespace {

constexpr std::string_view kGgufMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr int64_t kDefaultAlignment = 32, kMaxAlignment = int64_t{1} << 30;
constexpr int64_t kMetadataBytes = 13;           // of a key and its value, at least
constexpr int64_t kTensorBytes = 24;             // of what is said of a tensor, at least
constexpr uint64_t kMaxDim = uint64_t{1} << 40;  // that of CheckSize

// Reads the header of one file, from its beginning on.
class GgufHeaderReader {
 public:
  explicit GgufHeaderReader(const InputFile& file) : file_(file), path_(file.path()), bytes_(file) {}

  absl::StatusOr<GgufHeader> Read() {
    MESHWORK_RETURN_IF_ERROR(InFile(ReadVersion()));
    MESHWORK_RETURN_IF_ERROR(InFile(ReadCounts()));
    MESHWORK_RETURN_IF_ERROR(ReadMetadata());
    MESHWORK_RETURN_IF_ERROR(ReadAlignment());
    MESHWORK_RETURN_IF_ERROR(ReadEntries());
    header_.data_begin = (bytes_.at() + alignment_ - 1) / alignment_ * alignment_;
    for (const GgufEntry& entry : header_.entries) MESHWORK_RETURN_IF_ERROR(CheckPlace(entry));
    MESHWORK_RETURN_IF_ERROR(CheckOverlaps());
    return std::move(header_);
  }

 private:
  absl::Status InFile(const absl::Status& status) const { return Annotate(status, path_ + ": "); }

  absl::Status ReadVersion() {
    using Magic = std::array<char, kGgufMagic.size()>;
    MESHWORK_ASSIGN_OR_RETURN(const Magic magic, bytes_.Number<Magic>());
    if (const std::string_view text(magic.data(), magic.size()); text != kGgufMagic)
      return InvalidArgument("begins with {}; a GGUF file begins with \"GGUF\".", Quoted(text));
    MESHWORK_ASSIGN_OR_RETURN(const uint32_t version, bytes_.Number<uint32_t>());
    if (version == 2 || version == 3) return absl::OkStatus();
    if (const uint32_t other = __builtin_bswap32(version); other == 2 || other == 3) {
      return InvalidArgument("is big-endian; little-endian files are read, convert it.");
    }
    return InvalidArgument("has version {} of the format; versions 2 and 3 are read, convert it.", version);
  }

  absl::Status ReadCounts() {
    MESHWORK_ASSIGN_OR_RETURN(num_tensors_, bytes_.Number<uint64_t>());
    MESHWORK_ASSIGN_OR_RETURN(num_metadata_, bytes_.Number<uint64_t>());
    MESHWORK_RETURN_IF_ERROR(Annotate(bytes_.CheckLeft(num_metadata_, kMetadataBytes),
                                      fmt::format("number of keys {}: ", num_metadata_)));
    return Annotate(bytes_.CheckLeft(num_tensors_, kTensorBytes),
                    fmt::format("number of tensors {}: ", num_tensors_));
  }

  // A name, which must be UTF-8 and not be in `names`; adds it. `what`: "metadata" or "tensor".
  absl::StatusOr<std::string> ReadName(std::string_view what, uint64_t i, std::set<std::string>& names) {
    absl::StatusOr<std::string> name = bytes_.Text();
    if (!name.ok()) return Annotate(name.status(), fmt::format("{}: {} {}: ", path_, what, i));
    if (!IsUtf8(*name))
      return InvalidArgument("{}: the name of {} {} is {}, which is not UTF-8; the file is damaged.", path_,
                             what, i, Quoted(*name));
    if (!names.insert(*name).second)
      return InvalidArgument("{}: {} {} is there twice; names must be unique.", path_, what, Quoted(*name));
    return name;
  }

  absl::Status ReadMetadata() {
    std::set<std::string> names;
    for (uint64_t i = 0; i < num_metadata_; ++i) {
      MESHWORK_ASSIGN_OR_RETURN(std::string name, ReadName("metadata", i, names));
      absl::StatusOr<GgufValue> value = bytes_.Value();
      if (!value.ok()) return Annotate(value.status(), fmt::format("{}: metadata {}: ", path_, Quoted(name)));
      header_.metadata.emplace_back(std::move(name), *std::move(value));
    }
    return absl::OkStatus();
  }

  absl::Status ReadAlignment() {
    for (const auto& [name, value] : header_.metadata) {
      if (name != kAlignmentKey) continue;
      const std::optional<int64_t> number = WholeNumber(value);
      if (!number.has_value() || *number < 8 || *number > kMaxAlignment || *number % 8 != 0) {
        return InvalidArgument("{}: {} is {}; it must be a multiple of 8, from 8 to 2^30.", path_,
                               kAlignmentKey,
                               number.has_value() ? fmt::format("{}", *number) : "no whole number");
      }
      alignment_ = *number;
    }
    return absl::OkStatus();
  }

  absl::Status ReadEntries() {
    std::set<std::string> names;
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      GgufEntry entry;
      MESHWORK_ASSIGN_OR_RETURN(entry.name, ReadName("tensor", i, names));
      MESHWORK_RETURN_IF_ERROR(
          Annotate(ReadEntry(entry), fmt::format("{}: ", PlaceOfTensor(path_, entry.name))));
      header_.entries.push_back(std::move(entry));
    }
    return absl::OkStatus();
  }

  // Reads what follows the name.
  absl::Status ReadEntry(GgufEntry& entry) {
    MESHWORK_ASSIGN_OR_RETURN(const uint32_t rank, bytes_.Number<uint32_t>());
    if (rank > kMaxRank) return InvalidArgument("has {} dims; at most {} are read.", rank, kMaxRank);
    for (uint32_t d = 0; d < rank; ++d) {
      MESHWORK_ASSIGN_OR_RETURN(const uint64_t size, bytes_.Number<uint64_t>());
      if (size > kMaxDim) return InvalidArgument("has a dim of {} elements; at most 2^40 are read.", size);
      entry.type.shape.insert(entry.type.shape.begin(), static_cast<int64_t>(size));
    }
    MESHWORK_RETURN_IF_ERROR(CheckSize({F32, entry.type.shape}));
    MESHWORK_ASSIGN_OR_RETURN(const uint32_t type, bytes_.Number<uint32_t>());
    entry.stored = static_cast<GgmlType>(type);
    MESHWORK_ASSIGN_OR_RETURN(const uint64_t begin, bytes_.Number<uint64_t>());
    if (begin % static_cast<uint64_t>(alignment_) != 0 || begin > uint64_t{INT64_MAX})
      return InvalidArgument("begins at byte {} of the tensors; that must be a multiple of {}, below 2^63.",
                             begin, alignment_);
    entry.begin = entry.end = static_cast<int64_t>(begin);
    return SetForm(entry);
  }

  // Sets what follows from the type of the elements.
  static absl::Status SetForm(GgufEntry& entry) {
    const std::optional<GgmlForm> form = FormOf(entry.stored);
    entry.type.dtype = form.has_value() ? ReadType(form->element) : F32;
    if (!form.has_value()) return absl::OkStatus();
    const Shape& shape = entry.type.shape;
    if (form->block > 1 && (shape.empty() || shape.back() % form->block != 0)) {
      return InvalidArgument(
          "its shape is {} and its type {}; the last dim must be a multiple of {}, a block.",
          ShapeToString(shape), GgmlTypeName(entry.stored), form->block);
    }
    // Cannot be 2^63: there are 2^40 elements at most.
    const int64_t bytes = entry.type.num_elements() / form->block * form->bytes;
    if (__builtin_add_overflow(entry.begin, bytes, &entry.end)) entry.end = INT64_MAX;
    return absl::OkStatus();
  }

  absl::Status CheckPlace(const GgufEntry& entry) const {
    const int64_t bytes = std::max<int64_t>(file_.size() - header_.data_begin, 0);
    if (entry.end <= bytes) return absl::OkStatus();
    return InvalidArgument(
        "{}: takes bytes {} to {} of the tensors, but the file has only {} of them; it is incomplete, fetch it "
        "again.",
        PlaceOfTensor(path_, entry.name), entry.begin, entry.end, bytes);
  }

  absl::Status CheckOverlaps() const {
    std::vector<const GgufEntry*> in_order;
    for (const GgufEntry& entry : header_.entries)
      if (entry.begin < entry.end) in_order.push_back(&entry);
    std::stable_sort(in_order.begin(), in_order.end(),
                     [](const GgufEntry* a, const GgufEntry* b) { return a->begin < b->begin; });
    for (size_t i = 1; i < in_order.size(); ++i) {
      const GgufEntry &a = *in_order[i - 1], &b = *in_order[i];
      if (a.end <= b.begin) continue;
      return InvalidArgument(
          "{}: takes bytes {} to {} of the tensors, and tensor {} bytes {} to {}; they must not overlap.",
          PlaceOfTensor(path_, a.name), a.begin, a.end, Quoted(b.name), b.begin, b.end);
    }
    return absl::OkStatus();
  }

  const InputFile& file_;
  const std::string path_;
  GgufBytes bytes_;
  uint64_t num_tensors_ = 0, num_metadata_ = 0;
  int64_t alignment_ = kDefaultAlignment;
  GgufHeader header_;
};

}  // namespace

absl::StatusOr<GgufHeader> ReadGgufHeader(const InputFile& file) { return GgufHeaderReader(file).Read(); }

}  // namespace meshwork
