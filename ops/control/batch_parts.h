// A scan over the parts of a batch: what its body takes for its rows, instead of the batch's.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/control/body_builder.h"

namespace meshwork {

// Of a scan that is being built, each of whose slices is a part of the batch: iteration i has the rows i, i + length, ….
class BatchParts {
 public:
  // Keeps references to all of them. The body's arguments are those of `carries`, then the slices of `xs`.
  // REQUIRES, of the functions: all these are valid; there is one of xs.
  BatchParts(Graph& around, BodyBuilder& builder, const std::vector<Value>& carries,
             const std::vector<Value>& xs, const SourceLocation& location)
      : around_(around), builder_(builder), carries_(carries), xs_(xs), location_(location) {}

  // Where the random numbers of a part lie.
  RandomPlace Place();
  // The mean over the parts of what one of them has as `weight`: a value of the graph around, made by a loop of its own.
  // Error, recorded: the weight depends on carries.
  Value MeanWeight(const Value& weight);
  // Records a mistake if the mean of `loss` over the parts cannot be that over the rows of the batch: it is not linear in a
  // mean that leaves rows out, or is divided by a number of each part's own.
  void CheckLoss(ValueId loss);

 private:
  std::vector<bool> DiffersByPart() const;
  void CheckMeans(ValueId loss);
  void CheckDivisors(ValueId loss);

  Graph& around_;
  BodyBuilder& builder_;
  const std::vector<Value>&carries_, &xs_;
  const SourceLocation& location_;
  std::vector<ValueId> mean_weights_;  // of the graph around
};

}  // namespace meshwork
