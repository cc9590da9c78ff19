// Carries of a scan that are sums: an iteration only adds to them. As sums of the scan they are rounded once, may wait
// for their reduction over devices until the loop has ended, and need no memory per iteration.
//
//   var %a …  %b = add %a, %x  %c = add %b, %y  update %a = %c      the terms %x and %y
//
// Pure functions but for SumOfTerms and AddedTo, which write the graph of their operands.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ir/readers.h"

namespace meshwork {

class AddedTerms {
 public:
  // `returned`: everything that an iteration returns, including the next values of carries. Keeps a reference to
  // `body`; nodes that are added to it later are not seen.
  AddedTerms(const Graph& body, std::span<const ValueId> returned);

  // The terms that are added to `carry` to make `next`. Nothing if anything else reads the carry or a sum on the way,
  // or if nothing is added.
  std::optional<std::vector<ValueId>> Of(ValueId carry, ValueId next) const;

 private:
  const Graph& body_;
  const Readers readers_;
  std::vector<int> returned_;  // per value: how often it is returned
};

// The sum of the terms that one iteration adds. REQUIRES: there are terms.
Value SumOfTerms(Graph& body, const std::vector<ValueId>& terms);
// The carry after the loop: its first value plus `sum`, which the iterations added.
Value AddedTo(const Value& first, const Value& sum);

}  // namespace meshwork
