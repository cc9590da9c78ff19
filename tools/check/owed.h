// Partial values: a whole, and parts on the devices whose reduction is the whole.
//
// The parts differ between devices, are in no order, and leave the range from which the whole is drawn, so
// that a pass that holds only for ordered, equal or positive parts is found wrong: the parts of a maximum may
// be -∞, the parts of a sum of whole numbers may wrap around.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/ir/row.h"
#include "meshwork/tools/check/double_tensor.h"

namespace meshwork {

// Whether a value of the dtype may owe this reduction.
bool MayOwe(DType dtype, ReduceOp op);

// a and b combined as the parts of devices are combined; NaN is both the largest and the least. REQUIRES:
// MayOwe.
double Reduced(DType dtype, ReduceOp op, double a, double b);

// A partial value: the whole, and the part on each device.
struct Owed {
  DoubleTensor whole;
  std::vector<DoubleTensor> parts;  // per device
};

// A value that owes `op` over `devices` devices. `draw`: 0, 1, …; odd draws have extreme elements, at
// changing places.
// REQUIRES: MayOwe.
Owed DrawOwed(Sampler& sampler, const OpRow& row, const Type& type, ReduceOp op, int64_t devices,
              uint64_t draw);

}  // namespace meshwork
