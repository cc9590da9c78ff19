#include "meshwork/storage/npy_header.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "meshwork/base/quote.h"
#include "meshwork/base/status.h"

namespace meshwork {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMaxHeader = int64_t{1} << 20;  // those that are read here have a few hundred bytes

struct TypeDescriptor {
  std::string_view name;  // of a type, without its byte order
  StoredType stored;
  bool is_u64 = false;
};

constexpr TypeDescriptor kTypeDescriptors[] = {
    {"f4", StoredType::kF32}, {"f8", StoredType::kF64},       {"f2", StoredType::kF16},
    {"i8", StoredType::kI64}, {"i4", StoredType::kI32},       {"i2", StoredType::kI16},
    {"i1", StoredType::kI8},  {"u8", StoredType::kI64, true}, {"u4", StoredType::kU32},
    {"u2", StoredType::kU16}, {"u1", StoredType::kU8},        {"b1", StoredType::kBool},
};

std::string_view KindOf(std::string_view descriptor) {
  switch (descriptor.size() < 2 ? '\0' : descriptor[1]) {
    case 'O': return "Python objects";
    case 'V': return "raw bytes";
    case 'S':
    case 'U': return "texts";
    case 'c': return "complex numbers";
    case 'M':
    case 'm': return "dates or times";
    default: return "of no type that is known here";
  }
}

// The Python literal in a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class Literal {
 public:
  Literal(std::string_view place, std::string_view text) : place_(place), text_(text) {}

  absl::StatusOr<NpyHeader> Read() {
    NpyHeader header;
    MESHWORK_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      MESHWORK_ASSIGN_OR_RETURN(const std::string_view key, Text());
      MESHWORK_RETURN_IF_ERROR(Expect(':'));
      if (key == "descr") {
        MESHWORK_RETURN_IF_ERROR(Once(has_descriptor_, key));
        MESHWORK_RETURN_IF_ERROR(ReadDescriptor(header));
      } else if (key == "fortran_order") {
        MESHWORK_RETURN_IF_ERROR(Once(has_order_, key));
        MESHWORK_ASSIGN_OR_RETURN(header.is_fortran, Bool());
      } else if (key == "shape") {
        MESHWORK_RETURN_IF_ERROR(Once(has_shape_, key));
        MESHWORK_ASSIGN_OR_RETURN(header.shape, Sizes());
      } else {
        return InvalidArgument("{}: the header has the key {}; it has descr, fortran_order and shape.",
                               place_, Quoted(key));
      }
      if (!Take(',')) {
        MESHWORK_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    SkipSpace();
    if (at_ < text_.size()) return Malformed("the end");
    if (!has_descriptor_ || !has_order_ || !has_shape_)
      return InvalidArgument("{}: the header has no {}; it has descr, fortran_order and shape.", place_,
                             !has_descriptor_ ? "descr"
                             : !has_order_    ? "fortran_order"
                                              : "shape");
    return header;
  }

 private:
  absl::Status Malformed(std::string_view expected) const {
    return InvalidArgument(
        "{}: the header is damaged: {} should be at its byte {}, in front of {}; write or fetch the "
        "file again.",
        place_, expected, at_, Quoted(text_.substr(at_)));
  }
  absl::Status Once(bool& seen, std::string_view key) {
    if (!seen) {
      seen = true;
      return absl::OkStatus();
    }
    return InvalidArgument("{}: the header has the key {} twice; it has each once.", place_, Quoted(key));
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool Take(std::string_view token) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  bool Take(char c) { return Take(std::string_view(&c, 1)); }
  absl::Status Expect(char c) { return Take(c) ? absl::OkStatus() : Malformed(fmt::format("\"{}\"", c)); }

  absl::StatusOr<std::string_view> Text() {
    const bool is_single = Take('\'');
    if (!is_single && !Take('"')) return Malformed("a text");
    const size_t end = text_.find(is_single ? '\'' : '"', at_);
    if (end == std::string_view::npos) return Malformed("a text that ends");
    const std::string_view text = text_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  absl::StatusOr<bool> Bool() {
    if (Take("True")) return true;
    if (Take("False")) return false;
    return Malformed("True or False");
  }

  absl::StatusOr<int64_t> Size() {
    SkipSpace();
    const size_t begin = at_;
    int64_t size = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, text_[at_] - '0', &size))
        return Malformed("a size below 2^63");
    if (at_ == begin) return Malformed("a size of 0 or more");
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // of Python 2
    return size;
  }

  absl::StatusOr<Shape> Sizes() {
    MESHWORK_RETURN_IF_ERROR(Expect('('));
    Shape shape;
    while (!Take(')')) {
      MESHWORK_ASSIGN_OR_RETURN(const int64_t size, Size());
      shape.push_back(size);
      if (Take(',')) continue;
      if (shape.size() == 1) return Malformed("\",\"");  // (3) is a number, (3,) a tuple
      MESHWORK_RETURN_IF_ERROR(Expect(')'));
      break;
    }
    return shape;
  }

  absl::Status ReadDescriptor(NpyHeader& header) {
    SkipSpace();
    if (text_.substr(at_).starts_with('['))
      return InvalidArgument("{}: its elements are structures, {}; save each field as an array of its own.",
                             place_, Quoted(text_.substr(at_)));
    MESHWORK_ASSIGN_OR_RETURN(const std::string_view name, Text());
    const char order = name.empty() ? '\0' : name[0];
    const auto* const found =
        std::find_if(std::begin(kTypeDescriptors), std::end(kTypeDescriptors), [&](const TypeDescriptor& d) {
          return std::string_view("<>|=").find(order) != std::string_view::npos && name.substr(1) == d.name;
        });
    if (found == std::end(kTypeDescriptors))
      return InvalidArgument(
          "{}: its elements are {} ({}); floats of 2, 4 and 8 bytes, whole numbers of 1 to 8 and bools "
          "are read.",
          place_, Quoted(name), name.empty() ? "nothing" : KindOf(name));
    header.stored = found->stored;
    header.is_u64 = found->is_u64;
    header.is_big_endian = order == '>';
    return absl::OkStatus();
  }

  const std::string_view place_, text_;
  size_t at_ = 0;
  bool has_descriptor_ = false, has_order_ = false, has_shape_ = false;
};

// The next `size` bytes of a header.
absl::StatusOr<std::string> Next(std::string_view place, ByteSource& source, int64_t size) {
  if (source.left() < size)
    return InvalidArgument("{}: ends inside of its header; it is incomplete, write or fetch it again.",
                           place);
  std::string text(static_cast<size_t>(size), '\0');
  MESHWORK_RETURN_IF_ERROR(source.Read(std::as_writable_bytes(std::span(text))));
  return text;
}

int64_t LittleEndian(std::string_view little_endian) {
  int64_t number = 0;
  for (size_t i = little_endian.size(); i-- > 0;)
    number = number << 8 | static_cast<uint8_t>(little_endian[i]);
  return number;
}

}  // namespace

absl::StatusOr<NpyHeader> ReadNpyHeader(std::string_view place, ByteSource& source) {
  MESHWORK_ASSIGN_OR_RETURN(const std::string start, Next(place, source, 8));
  if (!start.starts_with(kMagic))
    return InvalidArgument("{}: starts with {}; an array of NumPy starts with {}.", place, Quoted(start),
                           Quoted(kMagic));
  const int major = static_cast<uint8_t>(start[6]), minor = static_cast<uint8_t>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    return InvalidArgument("{}: has version {}.{} of the format; 1.0, 2.0 and 3.0 are read.", place, major,
                           minor);
  MESHWORK_ASSIGN_OR_RETURN(const std::string length, Next(place, source, major == 1 ? 2 : 4));
  if (LittleEndian(length) > kMaxHeader)
    return InvalidArgument("{}: has a header of {} bytes; those that are read have at most {}.", place,
                           LittleEndian(length), kMaxHeader);
  MESHWORK_ASSIGN_OR_RETURN(const std::string text, Next(place, source, LittleEndian(length)));
  MESHWORK_ASSIGN_OR_RETURN(NpyHeader header, Literal(place, text).Read());
  MESHWORK_RETURN_IF_ERROR(Annotate(CheckSize(header.type()), fmt::format("{}: ", place)));
  return header;
}

std::string NpyHeaderOf(const Type& type) {
  const StoredType stored = WrittenType(type.dtype == BF16 ? F32 : type.dtype);
  const auto* const found = std::find_if(std::begin(kTypeDescriptors), std::end(kTypeDescriptors),
                                         [&](const TypeDescriptor& d) { return d.stored == stored; });
  std::string sizes;
  for (size_t d = 0; d < type.shape.size(); ++d)
    sizes += fmt::format("{}{}", d == 0 ? "" : ", ", type.shape[d]);
  if (type.rank() == 1) sizes += ',';
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 StoredTypeSize(stored) == 1 ? '|' : '<', found->name, sizes);
  // NumPy leaves room for a first size of 21 digits, and elements begin at a multiple of 64.
  constexpr size_t kDigits = 21, kStart = 10, kAlignment = 64;
  if (type.rank() > 0) text.append(kDigits - fmt::format("{}", type.shape[0]).size(), ' ');
  text.append(kAlignment - 1 - (kStart + text.size()) % kAlignment, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(text.size()), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace meshwork
