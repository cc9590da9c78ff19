// Transfer: data that moves between buffers of one memory.
//
// Everything a step does besides running kernels is a list of transfers: cutting a host tensor into blocks,
// the parts of collectives that stay within a domain, writing outputs and variables. A transfer fills one
// region of one buffer: from one source (a copy), from several sources that are reduced in the order given,
// or without a source by repeating one element. It names buffers by number. Plain data.
#pragma once

#include <array>
#include <cstddef>

#include "absl/container/inlined_vector.h"
#include "meshwork/ir/type.h"
#include "meshwork/runtime/plan/buffers.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

struct Transfer {
  BoxCopy box;  // the same from every source: all sources hold the same block
  DType dtype = F32;
  ReduceOp op = ReduceOp::kSum;  // with more than one source
  BufferId to = -1;
  absl::InlinedVector<BufferId, 1> from;
  std::array<std::byte, 8> fill = {};  // without a source: the element
};

}  // namespace meshwork
