#include <bit>
#include <charconv>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "meshwork/base/status.h"
#include "meshwork/base/text_error.h"
#include "meshwork/stablehlo/read/mlir.h"

namespace meshwork::mlir {
namespace {

class DenseReader {
 public:
  DenseReader(const Attribute& attribute, std::string_view text, std::string_view file)
      : attribute_(attribute), text_(text), file_(file), content_(attribute.text) {}

  absl::StatusOr<DenseElements> Read() {
    const Type type{F32, attribute_.type.shape};
    if (attribute_.type.is_dynamic || !CheckSize(type).ok())
      return Fail("tensors of such a size are not read");
    DenseElements elements;
    SkipSpace();
    if (rest().empty()) {
      if (type.num_elements() != 0) return Fail("it has no elements, and its type has some");
      return elements;
    }
    if (rest().starts_with("\"0x")) {
      MESHWORK_RETURN_IF_ERROR(ReadHex(elements));
    } else {
      MESHWORK_RETURN_IF_ERROR(ReadNested(elements, 0));
    }
    SkipSpace();
    if (!rest().empty()) return Fail("something follows its elements");
    elements.is_splat = elements.bits.size() == 1;
    if (!elements.is_splat && std::ssize(elements.bits) != type.num_elements())
      return Fail(fmt::format("it has {}, and its type has {}", Count(std::ssize(elements.bits), "element"),
                              type.num_elements()));
    return elements;
  }

 private:
  absl::Status Fail(std::string_view what) const {
    return ErrorAt(text_, file_, attribute_.at,
                   fmt::format("dense of {}: {}.", attribute_.type.ToString(), what));
  }
  std::string_view rest() const { return content_.substr(at_); }
  void SkipSpace() {
    while (at_ < content_.size() && absl::ascii_isspace(static_cast<unsigned char>(content_[at_]))) ++at_;
  }
  bool TryTake(char c) {
    SkipSpace();
    if (at_ >= content_.size() || content_[at_] != c) return false;
    ++at_;
    return true;
  }

  const std::string& element() const { return attribute_.type.element; }
  bool is_real() const {
    return element() == "f16" || element() == "bf16" || element() == "f32" || element() == "f64";
  }
  // The size of an element in bits, of "f32", "bf16", "ui8", "i1"; 0: not read.
  int width() const {
    const size_t digits = element().find_first_of("0123456789");
    int width = 0;
    if (digits == std::string::npos || digits == 0) return 0;
    std::from_chars(element().data() + digits, element().data() + element().size(), width);
    return width == 1 || width == 8 || width == 16 || width == 32 || width == 64 ? width : 0;
  }

  // Lists in lists, as the type's dims say; an element without a list is all of them.
  absl::Status ReadNested(DenseElements& elements, int depth) {
    const bool is_list = TryTake('[');
    if (is_list != (depth < attribute_.type.rank()) && (is_list || depth > 0))
      return Fail("its lists lie deeper in each other than its type has dims, or less deep");
    if (!is_list) return ReadElement(elements);
    int64_t count = 0;
    if (!TryTake(']')) {
      do {
        MESHWORK_RETURN_IF_ERROR(ReadNested(elements, depth + 1));
        ++count;
      } while (TryTake(','));
      if (!TryTake(']')) return Fail("a list has no end");
    }
    const int64_t size = attribute_.type.shape[static_cast<size_t>(depth)];
    if (count == size) return absl::OkStatus();
    return Fail(fmt::format("a list of {} along a dim of {}", count, size));
  }

  absl::Status ReadElement(DenseElements& elements) {
    SkipSpace();
    size_t end = at_;
    while (end < content_.size() && content_[end] != ',' && content_[end] != ']' &&
           !absl::ascii_isspace(static_cast<unsigned char>(content_[end])))
      ++end;
    const std::string_view word = content_.substr(at_, end - at_);
    at_ = end;
    if (width() == 0) return Fail("elements of this type are not read");
    if ((word == "true" || word == "false") && width() == 1) {
      elements.bits.push_back(word == "true" ? 1 : 0);
      return absl::OkStatus();
    }
    if (word.starts_with("0x")) {
      uint64_t bits = 0;
      const auto read = std::from_chars(word.data() + 2, word.data() + word.size(), bits, 16);
      if (read.ec != std::errc() || read.ptr != word.data() + word.size())
        return Fail("an element is no number");
      if (width() < 64 && bits >> width() != 0) return Fail("an element has more bits than its type");
      elements.bits.push_back(Signed(bits));
      return absl::OkStatus();
    }
    return is_real() ? ReadReal(word, elements) : ReadWhole(word, elements);
  }

  absl::Status ReadReal(std::string_view word, DenseElements& elements) {
    double number = 0;
    const auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec != std::errc() || read.ptr != word.data() + word.size())
      return Fail("an element is no number");
    if (element() == "f64") elements.bits.push_back(std::bit_cast<int64_t>(number));
    else if (element() == "f32") elements.bits.push_back(std::bit_cast<int32_t>(static_cast<float>(number)));
    else if (element() == "bf16")
      elements.bits.push_back(std::bit_cast<uint16_t>(BFloat16(static_cast<float>(number))));
    else elements.bits.push_back(std::bit_cast<uint16_t>(Float16(static_cast<float>(number))));
    return absl::OkStatus();
  }

  absl::Status ReadWhole(std::string_view word, DenseElements& elements) {
    int64_t number = 0;
    auto read = std::from_chars(word.data(), word.data() + word.size(), number);
    if (read.ec == std::errc::result_out_of_range) {
      uint64_t large = 0;
      read = std::from_chars(word.data(), word.data() + word.size(), large);
      number = static_cast<int64_t>(large);
    }
    if (read.ec != std::errc() || read.ptr != word.data() + word.size())
      return Fail("an element is no whole number of 64 bits");
    if (!Holds(number)) return Fail("an element is beyond the numbers of its type");
    elements.bits.push_back(number);
    return absl::OkStatus();
  }

  // Whether an element of the type may be this number.
  bool Holds(int64_t number) const {
    if (width() == 64) return true;
    const bool has_sign = !element().starts_with('u') && width() > 1;
    const int64_t end = int64_t{1} << (has_sign ? width() - 1 : width());
    return number < end && number >= (has_sign ? -end : 0);
  }

  // The bits of an element as a number of its sign: 0xFF is -1 of i8 and 255 of ui8; those of reals stay as they are.
  int64_t Signed(uint64_t bits) const {
    if (element().starts_with('u') || width() == 1 || width() == 64 || (is_real() && width() == 16))
      return static_cast<int64_t>(bits);
    const int shift = 64 - width();
    return static_cast<int64_t>(bits << shift) >> shift;
  }

  // "0x0000803F…": the bytes of all elements, or of one, the lowest first; bools are bits of bytes.
  absl::Status ReadHex(DenseElements& elements) {
    const size_t first = at_ + 3, end = content_.find('"', first);
    if (end == std::string_view::npos || (end - first) % 2 != 0) return Fail("its bytes have no end");
    if (width() == 0) return Fail("elements of this type are not read");
    std::vector<uint8_t> bytes;
    for (size_t i = first; i < end; i += 2) {
      int byte = 0;
      const auto read = std::from_chars(content_.data() + i, content_.data() + i + 2, byte, 16);
      if (read.ec != std::errc() || read.ptr != content_.data() + i + 2)
        return Fail("its bytes are not hexadecimal");
      bytes.push_back(static_cast<uint8_t>(byte));
    }
    at_ = end + 1;
    if (width() == 1) return UnpackBits(bytes, elements);
    const auto size = static_cast<size_t>(width() / 8);
    if (bytes.size() % size != 0) return Fail("its bytes are no whole elements");
    for (size_t i = 0; i < bytes.size(); i += size) {
      uint64_t bits = 0;
      for (size_t b = size; b-- > 0;) bits = bits << 8 | bytes[i + b];
      elements.bits.push_back(Signed(bits));
    }
    return absl::OkStatus();
  }

  absl::Status UnpackBits(const std::vector<uint8_t>& bytes, DenseElements& elements) const {
    const int64_t count = NumElements(attribute_.type.shape);
    if (bytes.size() == 1 && (bytes[0] == 0xFF || (bytes[0] == 0 && count != 1))) {
      elements.bits.push_back(bytes[0] == 0 ? 0 : 1);
      return absl::OkStatus();
    }
    if (std::ssize(bytes) == count && count > 1) {  // a byte each
      for (const uint8_t byte : bytes) elements.bits.push_back(byte != 0 ? 1 : 0);
      return absl::OkStatus();
    }
    if (std::ssize(bytes) != (count + 7) / 8) return Fail("its bytes are no whole elements");
    for (int64_t i = 0; i < count; ++i)
      elements.bits.push_back(bytes[static_cast<size_t>(i / 8)] >> (i % 8) & 1);
    return absl::OkStatus();
  }

  const Attribute& attribute_;
  std::string_view text_, file_, content_;
  size_t at_ = 0;
};

}  // namespace

absl::StatusOr<DenseElements> ReadDense(const Attribute& attribute, std::string_view text,
                                        std::string_view file) {
  return DenseReader(attribute, text, file).Read();
}

}  // namespace meshwork::mlir
