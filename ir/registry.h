// The families of rows. Static-initializer registration is dropped by the linker from static
// archives, so each family exports its rows and ops/control/families.cc lists the families. Rows from outside of
// the library are added by RegisterOp (ir/row.h) and belong to no family.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/ir/row.h"

namespace meshwork {

// Rows that belong together, with a title for documents.
struct OpFamily {
  std::string_view title;
  std::span<const OpRow> rows;
};
// All families of the library. Defined in ops/control/families.cc, above all rooms that have rows, so that
// archives of the rooms ir and control refer to each other when they are linked (cmake/rooms.cmake).
const std::vector<OpFamily>& OpFamilies();

// How an error about an unknown op ends: what to use instead, or the nearest name, or ".". Defined in
// ops/other_names.cc, which knows the functions that build composites.
std::string InsteadOfOp(std::string_view name, const std::vector<std::string>& ops);

// While it lives, this thread finds `row` by its name, in place of any other row, so that an unregistered row
// can be tried. Does nothing for a row that is found anyway. Objects of one thread must be destroyed in the
// opposite order of their construction. Keeps pointers into `row` until destroyed. Rows returned by FindOp,
// GetOp and AllOps in the meantime become invalid.
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
