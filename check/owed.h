// Values that are partial: a whole, and parts on the devices whose reduction it is.
//
// The parts differ between devices, lie in no order, and leave the domain that the whole is drawn from, so
// that a pass which only holds for ordered, alike or positive parts is found wrong: a maximum may be owed by
// parts of -∞, a sum of whole numbers may be owed by parts that wrap around.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwork/check/double_tensor.h"
#include "meshwork/ir/row.h"

namespace meshwork {

// Whether a value of the dtype may owe this reduction.
bool MayOwe(DType dtype, ReduceOp op);

// a and b combined as the devices' parts are; NaN is the largest and the least. REQUIRES: MayOwe.
double Reduced(DType dtype, ReduceOp op, double a, double b);

// What a partial operand is.
struct Owed {
  DoubleTensor whole;
  std::vector<DoubleTensor> parts;  // per device
};

// A value that owes `op` over so many devices. `draw`: 0, 1, …; the odd ones have extreme elements, which
// move. REQUIRES: MayOwe.
Owed DrawOwed(Sampler& sampler, const OpRow& row, const Type& type, ReduceOp op, int64_t devices,
              uint64_t draw);

}  // namespace meshwork
