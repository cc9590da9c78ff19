// Carries of a scan that are sums: an iteration only adds to them. As sums of the scan they are rounded once, may wait for
// their reduction over devices until the loop has ended, and need no memory per iteration.
//
//   var %a …  %b = add %a, %x  %c = add %b, %y  update %a = %c      the terms %x and %y
//
// Pure functions but for SumOfTerms and AddedTo, which write the graph of their operands.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"

namespace meshwork {

class AddedTerms {
 public:
  // `returned`: all that an iteration returns, the next values of carries among it. Keeps a reference to `body`, whose nodes
  // from then on are not looked at.
  AddedTerms(const Graph& body, std::span<const ValueId> returned);

  // What is added to `carry` until it is `next`; nothing if anything else sees the carry, or what it is on the way, or if it
  // stays as it is.
  std::optional<std::vector<ValueId>> Of(ValueId carry, ValueId next) const;

 private:
  const Graph& body_;
  std::vector<std::vector<int>> readers_;  // per value; -1: it is returned
};

// What one iteration adds. REQUIRES: there are terms.
Value SumOfTerms(Graph& body, const std::vector<ValueId>& terms);
// The carry after the loop, of its first value and what the iterations have added.
Value AddedTo(const Value& first, const Value& sum);

}  // namespace meshwork
