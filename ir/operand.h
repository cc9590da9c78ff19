// Operand: the type of the operands that builder functions take.
#pragma once

#include <optional>
#include <utility>

#include "meshwork/ir/graph.h"

namespace meshwork {

// An operand of an elementwise op: a Value, or a number that becomes a scalar of the other
// operand's dtype. Converting keeps the caller's line, so that even `a + b` knows its source location.
class Operand {
 public:
  Operand(const Value& value, CallSite loc = CallSite::Current())  // NOLINT
      : value_(value), location_(loc) {}
  Operand(double number, CallSite loc = CallSite::Current())  // NOLINT
      : number_(number), location_(loc) {}
  Operand(const Value& value, SourceLocation location) : value_(value), location_(std::move(location)) {}
  const Value& value() const { return value_; }
  bool is_number() const { return number_.has_value(); }
  double number() const { return *number_; }
  const SourceLocation& location() const { return location_; }

 private:
  Value value_;
  std::optional<double> number_;
  SourceLocation location_;
};

}  // namespace meshwork
