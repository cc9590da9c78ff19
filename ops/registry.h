// The families of rows. Static-initializer registration is dropped by the linker from static
// archives, so each family exports its rows and registry.cc lists the families. Rows from outside of the
// library come by RegisterOp (ops/row.h) and are of no family.
#pragma once

#include <memory>
#include <span>

#include "ops/row.h"

namespace meshwork {

// Rows that belong together, with a title for documents.
struct OpFamily {
  std::string_view title;
  std::span<const OpRow> rows;
};
const std::vector<OpFamily>& OpFamilies();

std::span<const OpRow> ArithmeticOps();
std::span<const OpRow> CompareOps();
std::span<const OpRow> UnaryOps();
std::span<const OpRow> SpecialOps();
std::span<const OpRow> ActivationOps();
std::span<const OpRow> CastOps();
std::span<const OpRow> ShapeOps();
std::span<const OpRow> SlicingOps();
std::span<const OpRow> JoiningOps();
std::span<const OpRow> GatherOps();
std::span<const OpRow> GatherNdOps();
std::span<const OpRow> ScatterOps();
std::span<const OpRow> AlongDimOps();
std::span<const OpRow> DynamicSliceOps();
std::span<const OpRow> CumulativeOps();
std::span<const OpRow> OrderOps();
std::span<const OpRow> ReduceOps();
std::span<const OpRow> MatmulOps();
std::span<const OpRow> ConvolutionOps();
std::span<const OpRow> PoolingOps();
std::span<const OpRow> AttentionOps();
std::span<const OpRow> LinalgOps();
std::span<const OpRow> GenerateOps();
std::span<const OpRow> RandomOps();
std::span<const OpRow> OptimizerOps();
std::span<const OpRow> CollectiveOps();
std::span<const OpRow> ControlOps();
std::span<const OpRow> ManualOps();

// While it lives, this thread finds `row` by its name, in place of any other, so that a row can be tried that
// is not registered. Nothing for a row that is found anyway. They end in the opposite order. `row` must
// outlive it, as must what FindOp, GetOp and AllOps gave meanwhile not.
class TrialRow {
 public:
  explicit TrialRow(const OpRow& row);
  ~TrialRow();
  TrialRow(const TrialRow&) = delete;
  TrialRow& operator=(const TrialRow&) = delete;

 private:
  struct View;
  std::unique_ptr<View> view_;
};

}  // namespace meshwork
