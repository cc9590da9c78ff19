// The forms of random values: Philox and what is drawn from it, as in ops/kernels/portable/philox.h. A device draws its
// own block, by the indices in the whole tensor.
//
// Uniform values, bernoulli and whole numbers have the bits of the CPU. A plugin may contract products and sums of normal
// values, whose last bit in f64 may then differ.
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <span>
#include <type_traits>

#include "meshwork/stablehlo/forms.h"

namespace meshwork::stablehlo {
namespace {

// ---- Formulas, as text.

// A value of i64 or f64 in a formula. A number beside one stands for a constant of its type.
struct DrawnTerm {
  HloText* text;
  HloValue value;
};

template <typename N>
concept DrawnNumber = std::is_arithmetic_v<N>;

template <DrawnNumber N>
DrawnTerm NumberLike(const DrawnTerm& x, N number) {
  const Type& type = x.value.type;
  return {x.text, IsReal(type.dtype) ? x.text->Constant(static_cast<double>(number), type)
                                     : x.text->WholeConstant(static_cast<int64_t>(number), type)};
}

DrawnTerm WriteTerm(std::string_view op, const DrawnTerm& a, const DrawnTerm& b) {
  return {a.text, a.text->Op(op, {a.value, b.value}, a.value.type)};
}
DrawnTerm operator+(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.add", a, b); }
DrawnTerm operator-(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.subtract", a, b); }
DrawnTerm operator*(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.multiply", a, b); }
DrawnTerm operator/(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.divide", a, b); }
DrawnTerm operator^(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.xor", a, b); }
DrawnTerm operator|(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.or", a, b); }
template <DrawnNumber N>
DrawnTerm operator+(const DrawnTerm& a, N b) {
  return a + NumberLike(a, b);
}
template <DrawnNumber N>
DrawnTerm operator-(const DrawnTerm& a, N b) {
  return a - NumberLike(a, b);
}
template <DrawnNumber N>
DrawnTerm operator*(const DrawnTerm& a, N b) {
  return a * NumberLike(a, b);
}
template <DrawnNumber N>
DrawnTerm operator&(const DrawnTerm& a, N b) {
  return WriteTerm("stablehlo.and", a, NumberLike(a, b));
}
// Of unsigned numbers.
DrawnTerm operator>>(const DrawnTerm& a, int bits) {
  return WriteTerm("stablehlo.shift_right_logical", a, NumberLike(a, bits));
}
DrawnTerm operator<<(const DrawnTerm& a, int bits) {
  return WriteTerm("stablehlo.shift_left", a, NumberLike(a, bits));
}
template <DrawnNumber N>
DrawnTerm operator-(N a, const DrawnTerm& b) {
  return NumberLike(b, a) - b;
}
DrawnTerm operator-(const DrawnTerm& a) { return {a.text, a.text->Negate(a.value)}; }

DrawnTerm TermAs(const DrawnTerm& x, DType dtype) { return {x.text, x.text->Convert(x.value, dtype)}; }
DrawnTerm BitsAs(const DrawnTerm& x, DType dtype) {
  return {x.text, x.text->Op("stablehlo.bitcast_convert", {x.value}, {dtype, x.value.shape()})};
}
DrawnTerm RootOf(const DrawnTerm& x) {
  return {x.text, x.text->Op("stablehlo.sqrt", {x.value}, x.value.type)};
}
DrawnTerm LesserOf(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.minimum", a, b); }
DrawnTerm GreaterOf(const DrawnTerm& a, const DrawnTerm& b) { return WriteTerm("stablehlo.maximum", a, b); }
// The same for each element.
DrawnTerm ForShape(const DrawnTerm& x, const Shape& shape) {
  return {x.text, x.text->Broadcast(x.value, shape)};
}

template <DrawnNumber N>
HloValue IsTerm(std::string_view direction, const DrawnTerm& x, N number) {
  return x.text->Compare(direction, x.value, NumberLike(x, number).value);
}
DrawnTerm Either(const HloValue& condition, const DrawnTerm& a, const DrawnTerm& b) {
  return {a.text, a.text->Select(condition, a.value, b.value)};
}

// ---- The generator. A word of 32 bits is an i64 of [0, 2^32), so that a product of two has all its bits.

constexpr int64_t kWordMask = 0xffffffff;

struct PhiloxWords {
  DrawnTerm c0, c1, c2, c3;
};

// seed: a scalar.
PhiloxWords PhiloxTextAt(const DrawnTerm& seed, int64_t stream, const DrawnTerm& index) {
  const Shape& shape = index.value.shape();
  DrawnTerm k0 = seed & kWordMask, k1 = seed >> 32;
  PhiloxWords c = {index & kWordMask, index >> 32, NumberLike(index, stream & kWordMask),
                   NumberLike(index, static_cast<int64_t>(static_cast<uint64_t>(stream) >> 32))};
  for (int round = 0; round < 10; ++round) {
    const DrawnTerm product0 = c.c0 * int64_t{0xD2511F53}, product1 = c.c2 * int64_t{0xCD9E8D57};
    c = {(product1 >> 32) ^ c.c1 ^ ForShape(k0, shape), product1 & kWordMask,
         (product0 >> 32) ^ c.c3 ^ ForShape(k1, shape), product0 & kWordMask};
    k0 = (k0 + int64_t{0x9E3779B9}) & kWordMask;
    k1 = (k1 + int64_t{0xBB67AE85}) & kWordMask;
  }
  return c;
}

// The first 53 bits of two words.
DrawnTerm Bits53Text(const DrawnTerm& high, const DrawnTerm& low) { return ((high << 32) | low) >> 11; }

// A value of [0, 1). 24 and 53 bits convert and scale exactly.
DrawnTerm UnitText(const PhiloxWords& block, DType dtype) {
  if (dtype == F32) return TermAs(block.c0 >> 8, F32) * 0x1p-24;
  return TermAs(Bits53Text(block.c0, block.c1), F64) * 0x1p-53;
}

// log x, x positive and normal.
DrawnTerm LogText(const DrawnTerm& x) {
  constexpr int64_t kSqrtHalf = 0x3FE6A09E667F3BCC, kMantissa = (int64_t{1} << 52) - 1;
  const DrawnTerm bits = BitsAs(x, I64) - kSqrtHalf;
  const DrawnTerm k = TermAs(WriteTerm("stablehlo.shift_right_arithmetic", bits, NumberLike(bits, 52)), F64);
  const DrawnTerm m = BitsAs((bits & kMantissa) + kSqrtHalf, F64);
  const DrawnTerm f = m - 1, s = f / (f + 2), z = s * s;
  DrawnTerm series = NumberLike(x, 2.0 / 25);
  for (int n = 23; n >= 3; n -= 2) series = series * z + 2.0 / n;
  return k * 0x1.62e42feep-1 + (f - (s * (f - series * z) - k * 0x1.a39ef35793c76p-33));
}

// 1 - z/(n(n-1)) (1 - z/((n-2)(n-3)) (…)), down to the factor of `least`.
DrawnTerm AlternatingText(const DrawnTerm& z, int most, int least) {
  DrawnTerm sum = NumberLike(z, 1);
  for (int n = most; n >= least; n -= 2) sum = 1 - z * sum * (1.0 / (n * (n - 1)));
  return sum;
}

// cos(2 pi turns), 0 <= turns < 1.
DrawnTerm CosTurnsText(const DrawnTerm& turns) {
  const DrawnTerm quarters = turns * 4;
  const DrawnTerm q = TermAs(quarters + 0.5, I64);
  const DrawnTerm angle = (quarters - TermAs(q, F64)) * 0x1.921fb54442d18p+0;
  const DrawnTerm z = angle * angle;
  const DrawnTerm cosine = 1 - z * 0.5 * AlternatingText(z, 18, 4);
  const DrawnTerm sine = angle - angle * (z * AlternatingText(z, 19, 5) * (1.0 / 6));
  const DrawnTerm magnitude = Either(IsTerm("EQ", q & 1, 1), sine, cosine);
  return Either(IsTerm("EQ", (q + 1) & 2, 2), -magnitude, magnitude);  // q of 1 and 2
}

DrawnTerm NormalText(const PhiloxWords& block) {
  const DrawnTerm u = TermAs(Bits53Text(block.c0, block.c1) + 1, F64) * 0x1p-53;
  const DrawnTerm v = TermAs(Bits53Text(block.c2, block.c3), F64) * 0x1p-53;
  return RootOf(LogText(u) * -2) * CosTurnsText(v);
}

DrawnTerm PolynomialText(std::span<const double> coefficients, const DrawnTerm& x) {  // the constant last
  DrawnTerm sum = NumberLike(x, coefficients[0]);
  for (const double coefficient : coefficients.subspan(1)) sum = sum * x + coefficient;
  return sum;
}

// The z with P(normal < z) = 1/2 + q, |q| < 0.4999997.
DrawnTerm NormalQuantileText(const DrawnTerm& q) {
  static constexpr double kA[] = {2.50908'09287'30122'6727e+3, 3.34305'75583'58812'8105e+4,
                                  6.72657'70927'00870'0853e+4, 4.59219'53931'54987'1457e+4,
                                  1.37316'93765'50946'1125e+4, 1.97159'09503'06551'4427e+3,
                                  1.33141'66789'17843'7745e+2, 3.38713'28727'96366'6080e+0};
  static constexpr double kB[] = {5.22649'52788'52854'5610e+3, 2.87290'85735'72194'2674e+4,
                                  3.93078'95800'09271'0610e+4, 2.12137'94301'58659'5867e+4,
                                  5.39419'60214'24751'1077e+3, 6.87187'00749'20579'0830e+2,
                                  4.23133'30701'60091'1252e+1, 1.0};
  static constexpr double kC[] = {7.74545'01427'83414'07640e-4, 2.27238'44989'26918'45833e-2,
                                  2.41780'72517'74506'11770e-1, 1.27045'82524'52368'38258e+0,
                                  3.64784'83247'63204'60504e+0, 5.76949'72214'60691'40550e+0,
                                  4.63033'78461'56545'29590e+0, 1.42343'71107'49683'57734e+0};
  static constexpr double kD[] = {1.05075'00716'44416'84324e-9, 5.47593'80849'95344'94600e-4,
                                  1.51986'66563'61645'71966e-2, 1.48103'97642'74800'74590e-1,
                                  6.89767'33498'51000'04550e-1, 1.67638'48301'83803'84940e+0,
                                  2.05319'16266'37758'82187e+0, 1.0};
  const DrawnTerm size = GreaterOf(q, -q);
  const DrawnTerm middle = 0.180625 - q * q;
  const DrawnTerm far = RootOf(-LogText(0.5 - size)) - 1.6;
  const DrawnTerm z = PolynomialText(kC, far) / PolynomialText(kD, far);
  return Either(IsTerm("LE", size, 0.425), q * PolynomialText(kA, middle) / PolynomialText(kB, middle),
                Either(IsTerm("LT", q, 0), -z, z));
}

DrawnTerm TruncatedNormalText(const PhiloxWords& block) {
  const DrawnTerm odd = Bits53Text(block.c0, block.c1) * 2 + (1 - (int64_t{1} << 53));
  const DrawnTerm z = NormalQuantileText(TermAs(odd, F64) * 0x1p-54 * 0x1.e8b4307d3627ap-1);
  return LesserOf(GreaterOf(z, NumberLike(z, -2)), NumberLike(z, 2));
}

// low plus the high 64 bits of range times the first 64 bits.
DrawnTerm WholeText(const PhiloxWords& block, int64_t low, uint64_t range) {
  const auto range_high = static_cast<int64_t>(range >> 32),
             range_low = static_cast<int64_t>(range) & kWordMask;
  const DrawnTerm first = block.c1 * range_high + ((block.c1 * range_low) >> 32);
  const DrawnTerm second = block.c0 * range_low + (first & kWordMask);
  return block.c0 * range_high + (first >> 32) + (second >> 32) + low;
}

// ---- Where to draw.

// The operands that give the place of the result in a whole tensor, the last ones: block, part, number of parts.
constexpr size_t kPlacedOperands = 3;

// The seed, by the steps and iterations. i64[].
DrawnTerm SeedText(const FormView& v, size_t steps) {
  DrawnTerm seed = {&v.text, v.text.WholeConstant(v.attrs().Get<int64_t>("seed"), {I64, {}})};
  for (size_t o = 0; o < steps; ++o) {
    const PhiloxWords block = PhiloxTextAt(seed, -1, {&v.text, v.operands[o]});
    seed = (block.c0 << 32) | block.c1;
  }
  return seed;
}

// The index of each element in the whole tensor, row by row.
DrawnTerm DrawnIndex(const FormView& v, std::span<const HloValue> place) {
  const Shape &shape = v.result().shape, &global = v.result_info().global.shape;
  const auto along = [&](size_t d) { return DrawnTerm{&v.text, v.IndexAlong(d)}; };
  DrawnTerm row = shape.empty() ? DrawnTerm{&v.text, v.text.WholeConstant(0, {I64, {}})} : along(0);
  if (!place.empty()) {
    const auto number = [&](size_t o) { return ForShape({&v.text, place[o]}, shape); };
    const int64_t rows = shape.empty() ? 1 : global[0];
    row = (row + number(0) * rows) * number(2) + number(1);
  }
  DrawnTerm index = row;
  for (size_t d = 1; d < shape.size(); ++d) index = index * std::max<int64_t>(global[d], 1) + along(d);
  return index;
}

PhiloxWords DrawnWords(const FormView& v) {
  const std::span<const HloValue> operands = v.operands;
  const size_t steps = operands.size() - (v.attrs().Get<bool>("placed") ? kPlacedOperands : 0);
  return PhiloxTextAt(SeedText(v, steps), v.attrs().Get<int64_t>("stream"),
                      DrawnIndex(v, operands.subspan(steps)));
}

HloValues DrawnResult(const FormView& v, const DrawnTerm& x) { return {TermAs(x, v.result().dtype).value}; }

// ---- Forms.

// The dtype in which numbers are drawn.
DType DrawnDType(const FormView& v) { return WideDType(v.result().dtype); }

double RoundedTo(DType dtype, double x) {
  if (dtype == F64) return x;
  const auto single = static_cast<float>(x);
  return dtype == BF16 ? static_cast<float>(BFloat16(single)) : single;
}

// The nearest number of the dtype below x.
double NumberBelow(DType dtype, double x) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  if (dtype == F64) return std::nextafter(x, kLowest);
  if (dtype == F32) return std::nextafter(static_cast<float>(x), static_cast<float>(kLowest));
  BFloat16 below(static_cast<float>(x));
  if (x == 0) below.bits = 0x8001;
  else below.bits = static_cast<uint16_t>(x > 0 ? below.bits - 1 : below.bits + 1);
  return static_cast<float>(below);
}

absl::StatusOr<HloValues> RandomUniformForm(const FormView& v) {
  const DType dtype = v.result().dtype, drawn = DrawnDType(v);
  const double low = RoundedTo(dtype, v.attrs().Get<double>("low")),
               high = RoundedTo(dtype, v.attrs().Get<double>("high"));
  if (low == high) return HloValues{v.text.Constant(low, v.result())};
  const DrawnTerm unit = UnitText(DrawnWords(v), drawn);
  const DrawnTerm range = NumberLike(unit, RoundedTo(drawn, high - low));
  // The product is at most the range; that it is asked keeps a plugin from contracting it and the sum.
  const DrawnTerm x = LesserOf(unit * range, range) + low;
  const DrawnTerm below = LesserOf(x, NumberLike(x, NumberBelow(drawn, high)));
  if (dtype != BF16) return DrawnResult(v, below);
  // Rounding may reach the end again.
  const DrawnTerm rounded = TermAs(below, BF16);
  return DrawnResult(v, LesserOf(rounded, NumberLike(rounded, NumberBelow(BF16, high))));
}

template <bool truncated>
absl::StatusOr<HloValues> RandomNormalForm(const FormView& v) {
  const double mean = v.attrs().Get<double>("mean"), stddev = v.attrs().Get<double>("stddev");
  const PhiloxWords block = DrawnWords(v);
  const DrawnTerm z = TermAs(truncated ? TruncatedNormalText(block) : NormalText(block), DrawnDType(v));
  // No z reaches 9; see RandomUniformForm.
  return DrawnResult(v, LesserOf(z * stddev, NumberLike(z, 9 * stddev)) + mean);
}

absl::StatusOr<HloValues> RandomBernoulliForm(const FormView& v) {
  const HloValue drawn = IsTerm("LT", UnitText(DrawnWords(v), F64), v.attrs().Get<double>("p"));
  return HloValues{v.text.Convert(drawn, v.result().dtype)};
}

absl::StatusOr<HloValues> RandomIntForm(const FormView& v) {
  const int64_t low = v.attrs().Get<int64_t>("low"), high = v.attrs().Get<int64_t>("high");
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  return DrawnResult(v, WholeText(DrawnWords(v), low, range));
}

constexpr NamedForm kRandomForms[] = {
    {"random_uniform", RandomUniformForm},
    {"random_normal", RandomNormalForm<false>},
    {"random_truncated_normal", RandomNormalForm<true>},
    {"random_bernoulli", RandomBernoulliForm},
    {"random_int", RandomIntForm},
};

}  // namespace

std::span<const NamedForm> RandomForms() { return kRandomForms; }

}  // namespace meshwork::stablehlo
