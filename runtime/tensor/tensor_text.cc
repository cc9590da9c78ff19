#include "meshwork/runtime/tensor/tensor_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ostream>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ops/kernels/copy.h"

namespace meshwork {
namespace {

// ---- Numbers as decimals.

// ± d.ddd · 10^exponent, without zeros at the end; zero is the digit 0.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;
};

// Reads "-1.25e+03", as std::to_chars writes it.
Decimal ReadDecimal(std::string_view text) {
  Decimal x{.negative = text.starts_with('-')};
  if (x.negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  for (const char c : text.substr(0, e))
    if (c != '.') x.digits += c;
  while (x.digits.size() > 1 && x.digits.back() == '0') x.digits.pop_back();
  const std::string_view exponent = text.substr(text[e + 1] == '+' ? e + 2 : e + 1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), x.exponent);
  return x;
}

using Characters = std::array<char, 1200>;  // more than a double ever takes

template <typename T, typename... Precision>
std::string_view InCharacters(T x, Characters& out, std::chars_format format, Precision... precision) {
  const auto end = std::to_chars(out.data(), out.data() + out.size(), x, format, precision...);
  return {out.data(), static_cast<size_t>(end.ptr - out.data())};
}

// The fewest digits that are read back as x.
template <typename T>
Decimal Shortest(T x) {
  Characters out;
  if constexpr (!kIsNarrowReal<T>) {
    return ReadDecimal(InCharacters(x, out, std::chars_format::scientific));
  } else {
    const auto value = static_cast<float>(x);
    for (int precision = 0;; ++precision) {
      const std::string_view text = InCharacters(value, out, std::chars_format::scientific, precision);
      float back = 0;
      std::from_chars(text.data(), text.data() + text.size(), back);
      // Nine digits tell a float from every other float.
      if (T(back).bits == x.bits || precision == 8) return ReadDecimal(text);
    }
  }
}

// Digits in front of the point and behind it.
struct Digits {
  std::string whole, fraction;
};

// Shortest(x) with at most `precision` digits behind the point, 12.5.
template <typename T>
Digits Positional(T x, int precision) {
  Decimal shortest = Shortest(x);
  const auto digits = static_cast<int>(shortest.digits.size());
  if (digits - 1 - shortest.exponent >
      precision) {  // rounded from the exact number, not from its shortest digits
    Characters out;
    const std::string_view text =
        InCharacters(static_cast<Compute<T>>(x), out, std::chars_format::fixed, precision);
    const size_t point = std::min(text.find('.'), text.size());
    Digits parts{std::string(text.substr(0, point)),
                 std::string(text.substr(std::min(point + 1, text.size())))};
    while (parts.fraction.ends_with('0')) parts.fraction.pop_back();
    return parts;
  }
  Digits parts{.whole = shortest.negative ? "-" : ""};
  const auto whole = static_cast<size_t>(std::max(shortest.exponent + 1, 0));
  if (whole == 0) {
    parts.whole += '0';
    parts.fraction = std::string(static_cast<size_t>(-shortest.exponent - 1), '0') + shortest.digits;
  } else if (shortest.digits.size() < whole) {  // 98816, where 99 tell it from other bf16
    Characters out;
    parts.whole = InCharacters(static_cast<Compute<T>>(x), out, std::chars_format::fixed, 0);
  } else {
    parts.whole += shortest.digits.substr(0, whole);
    parts.fraction = shortest.digits.substr(whole);
  }
  return parts;
}

// 1.25e+01 with so many digits behind the point, zeros among them; and the exponent.
template <typename T>
std::pair<Digits, int> Scientific(T x, int precision) {
  Characters out;
  const std::string_view text =
      InCharacters(static_cast<Compute<T>>(x), out, std::chars_format::scientific, precision);
  const size_t e = text.find('e'), point = std::min(text.find('.'), e);
  return {{std::string(text.substr(0, point)),
           std::string(text.substr(std::min(point + 1, e), e - std::min(point + 1, e)))},
          ReadDecimal(text).exponent};
}

// How many digits behind the point 1.25e+01 takes, at most `precision`.
template <typename T>
int ScientificPrecision(T x, int precision) {
  const Decimal shortest = Shortest(x);
  if (static_cast<int>(shortest.digits.size()) - 1 <= precision)
    return static_cast<int>(shortest.digits.size()) - 1;
  Characters out;
  const std::string_view rounded =
      InCharacters(static_cast<Compute<T>>(x), out, std::chars_format::scientific, precision);
  return static_cast<int>(ReadDecimal(rounded).digits.size()) - 1;
}

// "+05" of at least `width` digits.
std::string Exponent(int exponent, size_t width) {
  return fmt::format("{}{:0{}}", exponent < 0 ? '-' : '+', std::abs(exponent), width);
}

std::string_view NotFinite(double x) { return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf"; }

// ---- Elements, each as a word; all of one tensor are as wide. After FloatingFormat in NumPy's arrayprint.py.

// From this number on not all digits in front of the point need be exact.
template <typename Real>
constexpr double kManyDigits = std::is_same_v<Real, double> ? 1e16 : 1e6;

// Whether these values are written with exponents; they are compared in their own type, as in NumPy.
template <typename Real>
bool TakesExponents(const std::vector<Real>& values) {
  Real smallest = 0, largest = 0;
  for (const Real x : values) {
    if (!std::isfinite(x) || x == 0) continue;
    const Real size = std::abs(x);
    smallest = smallest == 0 ? size : std::min(smallest, size);
    largest = std::max(largest, size);
  }
  return smallest != 0 && (largest >= static_cast<Real>(std::min(1e8, kManyDigits<Real>)) ||
                           smallest < Real(0.0001) || largest / smallest > Real(1000));
}

template <typename T>
std::vector<std::string> RealWords(const std::vector<T>& values, int precision) {
  const bool exponents = TakesExponents(std::vector<Compute<T>>(values.begin(), values.end()));
  const auto is_finite = [](T x) { return std::isfinite(static_cast<Compute<T>>(x)); };
  int most = 0;  // digits behind the point, which all numbers with exponents have
  for (const T x : values)
    if (exponents && is_finite(x)) most = std::max(most, ScientificPrecision(x, precision));
  std::vector<std::pair<Digits, int>> numbers;
  size_t before = 0, behind = 0, exponent_digits = 2;
  bool any_finite = false;
  for (const T x : values) {
    std::pair<Digits, int> number;
    if (is_finite(x)) {
      number = exponents ? Scientific(x, most) : std::pair(Positional(x, precision), 0);
      before = std::max(before, number.first.whole.size());
      behind = std::max(behind, number.first.fraction.size());
      exponent_digits = std::max(exponent_digits, Exponent(number.second, 2).size() - 1);
      any_finite = true;
    }
    numbers.push_back(std::move(number));
  }
  size_t width = any_finite ? before + 1 + behind + (exponents ? exponent_digits + 2 : 0) : 0;
  for (const T x : values)
    if (!is_finite(x)) width = std::max(width, NotFinite(static_cast<Compute<T>>(x)).size());
  std::vector<std::string> words;
  for (size_t i = 0; i < values.size(); ++i) {
    const auto& [digits, exponent] = numbers[i];
    std::string word;
    if (!is_finite(values[i])) word = NotFinite(static_cast<Compute<T>>(values[i]));
    else if (exponents)
      word = fmt::format("{}.{}e{}", digits.whole, digits.fraction, Exponent(exponent, exponent_digits));
    else word = fmt::format("{}.{:<{}}", digits.whole, digits.fraction, behind);
    words.push_back(fmt::format("{:>{}}", word, width));
  }
  return words;
}

template <typename T>
std::vector<std::string> Words(const std::vector<T>& values, int precision) {
  if constexpr (kIsReal<T>) {
    return RealWords(values, precision);
  } else {
    std::vector<std::string> words;
    size_t width = 0;
    for (const T x : values) {
      if constexpr (std::is_same_v<T, bool>) words.emplace_back(x ? "True" : "False");
      else words.push_back(fmt::format("{}", x));
      // NumPy's bools are as wide as False, even where all are True.
      width = std::max(width, std::is_same_v<T, bool> ? 5 : words.back().size());
    }
    for (std::string& word : words) word = fmt::format("{:>{}}", word, width);
    return words;
  }
}

// A scalar, as Python writes numbers: 3.0, 1e-05.
template <typename T>
std::string ScalarText(T x) {
  if constexpr (std::is_same_v<T, bool>) return x ? "True" : "False";
  else if constexpr (!kIsReal<T>) return fmt::format("{}", x);
  else {
    const auto value = static_cast<double>(static_cast<Compute<T>>(x));
    constexpr int kAll = 400;  // more digits behind the point than tell any number from others
    if (!std::isfinite(value)) return std::string(NotFinite(value));
    if (value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < kManyDigits<Compute<T>>)) {
      const Digits digits = Positional(x, kAll);
      return fmt::format("{}.{:0<1}", digits.whole, digits.fraction);
    }
    const auto [digits, exponent] = Scientific(x, ScientificPrecision(x, kAll));
    return fmt::format("{}{}{}e{}", digits.whole, digits.fraction.empty() ? "" : ".", digits.fraction,
                       Exponent(exponent, 2));
  }
}

// ---- Brackets and lines. After _formatArray in NumPy's arrayprint.py.

class ArrayPrinter {
 public:
  ArrayPrinter(const Tensor& x, const TensorTextOptions& options)
      : x_(x),
        strides_(DenseStrides(x.shape())),
        options_(options),
        summarised_(x.num_elements() > options.threshold) {}

  std::string Print() {
    std::vector<int64_t> shown;
    Visit(0, 0, shown);
    DispatchAny(x_.dtype(), [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> values;
      for (const int64_t offset : shown) values.push_back(x_.values<T>()[static_cast<size_t>(offset)]);
      words_ = Words(values, options_.precision);
    });
    return Nested(0, options_.line_width);
  }

 private:
  // Whether the middle of dim d is left out.
  bool Cuts(size_t d) const { return summarised_ && x_.shape()[d] > 2 * options_.edge_items; }

  // The offsets of the elements that are shown, in order.
  void Visit(size_t d, int64_t offset, std::vector<int64_t>& shown) const {
    if (d == strides_.size()) return shown.push_back(offset);
    const int64_t size = x_.shape()[d];
    for (int64_t i = 0; i < size; ++i) {
      if (Cuts(d) && i == options_.edge_items) i = size - options_.edge_items;
      if (i < size) Visit(d + 1, offset + i * strides_[d], shown);
    }
  }

  // The text of dims d and up, from the next words on. `width`: the columns that it has in a line of its own.
  std::string Nested(size_t d, int64_t width) {
    if (d + 1 == strides_.size()) return Row(d, width);
    const std::string indent(d + 1, ' ');
    const std::string between(strides_.size() - d - 1, '\n');
    const int64_t items = Cuts(d) ? 2 * options_.edge_items : x_.shape()[d];
    std::string text = "[";
    for (int64_t i = 0; i < items; ++i) {
      if (Cuts(d) && i == options_.edge_items) text += "..." + between + indent;
      text += Nested(d + 1, width - 1);
      if (i + 1 < items) text += between + indent;
    }
    if (Cuts(d) && items == 0) text += "...";
    return text + "]";
  }

  std::string Row(size_t d, int64_t width) {
    const std::string indent(d + 1, ' ');
    const int64_t items = Cuts(d) ? 2 * options_.edge_items : x_.shape()[d];
    std::string text, line = indent;
    const auto add = [&](std::string_view word) {
      // A line of its own would not help a word that is longer than that.
      if (static_cast<int64_t>(line.size() + word.size()) > width - 1 && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += word;
    };
    for (int64_t i = 0; i < items; ++i) {
      if (Cuts(d) && i == options_.edge_items) {
        add("...");
        line += ' ';
      }
      add(words_[next_++]);
      if (i + 1 < items) line += ' ';
    }
    if (Cuts(d) && items == 0) add("...");
    text += line;
    return "[" + text.substr(indent.size()) + "]";
  }

  const Tensor& x_;
  const Shape strides_;
  const TensorTextOptions options_;
  const bool summarised_;
  std::vector<std::string> words_;
  size_t next_ = 0;  // of words_
};

}  // namespace

std::string Tensor::ToString() const { return ToString(TensorTextOptions()); }

std::string Tensor::ToString(const TensorTextOptions& options) const {
  if (!valid()) return fmt::format("<{}>", MessageOf(status()));
  if (num_elements() == 0) return "[]";
  if (type_.rank() == 0)
    return DispatchAny(dtype(), [&](auto zero) { return ScalarText(values<decltype(zero)>()[0]); });
  TensorTextOptions sane = options;
  sane.precision = std::clamp(sane.precision, 0, 1000);
  sane.edge_items = std::clamp<int64_t>(sane.edge_items, 0, int64_t{1} << 40);
  return ArrayPrinter(*this, sane).Print();
}

std::ostream& operator<<(std::ostream& out, const Tensor& x) { return out << x.ToString(); }

}  // namespace meshwork
