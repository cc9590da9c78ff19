#include "meshwork/tools/check/owed.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace meshwork {
namespace {

class OwedDraw {
 public:
  OwedDraw(Sampler& sampler, const OpRow& row, const Type& type, ReduceOp op, int64_t devices, uint64_t draw)
      : sampler_(sampler),
        row_(row),
        type_(type),
        op_(op),
        devices_(static_cast<size_t>(devices)),
        draw_(draw) {}

  Owed Make() {
    Owed owed{sampler_.Draw(type_, row_), {}};
    for (size_t device = 0; device < devices_; ++device) {
      owed.parts.push_back(sampler_.Draw(type_, row_));
      if (type_.dtype != BOOL) continue;
      for (double& x : owed.parts.back().values)
        x = static_cast<double>(sampler_.Below(2));  // also if the whole is not fair
    }
    for (size_t e = 0; e < owed.whole.values.size(); ++e) {
      std::vector<double> parts;
      for (const DoubleTensor& part : owed.parts) parts.push_back(part.values[e]);
      owed.whole.values[e] = Element(e, owed.whole.values[e], parts);
      for (size_t device = 0; device < devices_; ++device) owed.parts[device].values[e] = parts[device];
    }
    return owed;
  }

 private:
  bool IsWhole() const { return IsInteger(type_.dtype); }
  double Sign() { return sampler_.Below(2) == 0 ? 1 : -1; }
  // The number of the extreme that element e is to be; 0: none.
  uint64_t Extreme(size_t e) const { return draw_ % 2 == 0 ? 0 : (e + draw_ / 2) % 8; }

  // Makes drawn numbers into a whole, which it returns, and its parts.
  double Element(size_t e, double whole, std::vector<double>& parts) {
    switch (op_) {
      case ReduceOp::kSum: return Sum(e, whole, parts);
      case ReduceOp::kProd: return Product(e, whole, parts);
      case ReduceOp::kMax: return Largest(Extreme(e), whole, parts);
      case ReduceOp::kMin: {
        const double largest = Largest(Extreme(e), -whole, parts);
        for (double& part : parts) part = Mirrored(part);
        return Mirrored(largest);
      }
      case ReduceOp::kAnd:
      case ReduceOp::kOr: break;
    }
    // Fair coins, however many elements of the whole are true: no device sees a whole row of true elements.
    const double neutral = op_ == ReduceOp::kOr ? 0 : 1;
    for (double& part : parts) part = whole == neutral ? neutral : static_cast<double>(sampler_.Below(2));
    parts[sampler_.Below(devices_)] = whole;
    return whole;
  }

  // The negative of the least whole number does not exist.
  double Mirrored(double x) const {
    if (!IsWhole()) return -x;
    return x <= Least() ? Most() : x >= Most() ? Least() : -x;
  }
  double Least() const { return type_.dtype == I32 ? -0x1p31 : -0x1p63; }
  // For i64, the largest that a double holds.
  double Most() const { return type_.dtype == I32 ? 0x1p31 - 1 : 0x1p63 - 0x1p10; }

  bool TakesZero() const { return IsWhole() || (row_.sample_low <= 0 && row_.sample_high > 0); }
  // 1, 2, 4, … or 2^(n-1).
  double Power(uint64_t n) { return std::ldexp(1.0, static_cast<int>(sampler_.Below(n))); }

  double Sum(size_t e, double whole, std::vector<double>& parts) {
    if (Extreme(e) == 6 && TakesZero()) whole = 0;
    if ((Extreme(e) == 5 || Extreme(e) == 7) && type_.dtype == I32) whole = Wrapped(I32, whole * 0x1p29);
    for (double& part : parts) {
      if (type_.dtype == I32) part = Wrapped(I32, part + 0x1p20 * static_cast<double>(sampler_.Below(4096)));
      if (type_.dtype == I64) part += Sign() * 0x1p40 * static_cast<double>(sampler_.Below(64));
    }
    parts.back() = whole;
    for (size_t i = 0; i + 1 < devices_; ++i) parts.back() = Wrapped(type_.dtype, parts.back() - parts[i]);
    return whole;
  }

  // Factors of either sign; those of i32 overflow.
  double Product(size_t e, double whole, std::vector<double>& parts) {
    if (Extreme(e) == 6 && TakesZero()) whole = 0;
    for (double& part : parts) {
      if (IsWhole()) part = Sign() * std::min(part, 3.0);
      else part = Sign() * Power(4) / 4;
      if (Extreme(e) >= 4 && type_.dtype == I32) part *= Power(28);
    }
    double others = 1;
    for (size_t i = 0; i + 1 < devices_; ++i) others = Wrapped(type_.dtype, others * parts[i]);
    if (IsWhole()) return Wrapped(type_.dtype, others * parts.back());
    parts.back() = whole / others;
    return whole;
  }

  // One device holds the largest part, the others parts that are not larger.
  double Largest(uint64_t extreme, double whole, std::vector<double>& parts) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (IsWhole() && extreme != 0) whole *= Sign();
    const double most = IsWhole() ? Most() : kInf, least = IsWhole() ? Least() : -kInf;
    if (extreme == 1 && !IsWhole()) whole = std::numeric_limits<double>::quiet_NaN();
    if (extreme == 3 && TakesZero()) whole = 0;
    if (extreme == 4) whole = most;
    if (extreme == 5) whole = least;
    for (double& part : parts) {
      const double below = std::isfinite(whole) ? whole : 1;
      const double step = !IsWhole() ? 0.25 : sampler_.Below(2) == 0 ? 1 : Power(28);
      part = std::max(least, below - step * static_cast<double>(sampler_.Below(12)));
      if (extreme == 2 || extreme == 5) part = least;
    }
    parts[sampler_.Below(devices_)] = whole;
    return whole;
  }

  Sampler& sampler_;
  const OpRow& row_;
  const Type& type_;
  const ReduceOp op_;
  const size_t devices_;
  const uint64_t draw_;
};

}  // namespace

bool MayOwe(DType dtype, ReduceOp op) {
  // A value of a storage dtype owes a sum only after a lookup in a cut table: the sum of one number and zeros, not of
  // arbitrary parts.
  if (IsStorage(dtype)) return false;
  return (dtype == BOOL) == (op == ReduceOp::kAnd || op == ReduceOp::kOr);
}

double Reduced(DType dtype, ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum: return Wrapped(dtype, a + b);
    case ReduceOp::kProd: return Wrapped(dtype, a * b);
    case ReduceOp::kMax:
    case ReduceOp::kOr: return a > b || a != a ? a : b;
    case ReduceOp::kMin:
    case ReduceOp::kAnd: break;
  }
  return a < b || a != a ? a : b;
}

Owed DrawOwed(Sampler& sampler, const OpRow& row, const Type& type, ReduceOp op, int64_t devices,
              uint64_t draw) {
  return OwedDraw(sampler, row, type, op, devices, draw).Make();
}

}  // namespace meshwork
