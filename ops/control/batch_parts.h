// BatchParts: random numbers and mean weights in the body of a scan over the parts of a batch.
#pragma once

#include <vector>

#include "meshwork/ir/graph.h"
#include "meshwork/ops/control/body_builder.h"

namespace meshwork {

// For a scan that is being built and whose slices are parts of a batch: iteration i has the rows i, i + length, ….
class BatchParts {
 public:
  // Keeps references to all of them. The body's arguments are those of `carries`, then the slices of `xs`.
  // REQUIRES, for the functions: all of them are valid; xs is not empty.
  BatchParts(Graph& around, BodyBuilder& builder, const std::vector<Value>& carries,
             const std::vector<Value>& xs, const SourceLocation& location)
      : around_(around), builder_(builder), carries_(carries), xs_(xs), location_(location) {}

  // The place of a part's random numbers in the whole batch.
  RandomPlace Place();
  // The mean over the parts of `weight`, a value of the body: a value of the enclosing graph, computed by a separate
  // loop. Error, recorded: the weight depends on carries.
  Value MeanWeight(const Value& weight);
  // Records a mistake if the mean of `loss` over the parts may differ from the loss of the whole batch: the loss is not
  // linear in a mean that leaves rows out, or it is divided by a number that differs between the parts.
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
