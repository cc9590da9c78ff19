// Where the values of a step lie: storages, the buffers in them, and the buffers of each value.
//
// A *storage* is memory in one piece. A *buffer* is a part of a storage: one instance of a value
// (runtime/plan/sharing.h), or a host tensor. The instances of a value lie one behind the other in one storage.
// Buffers have numbers; the backend decides their addresses. Plain data.
#pragma once

#include <cstdint>

#include "meshwork/runtime/plan/sharing.h"

namespace meshwork {

using BufferId = int32_t;

// Memory that is placed in one piece: for the instances of a value, one behind the other (or of several
// values in turn, if one is written over the other), for the instances of a DTensor, or for a host tensor.
struct Storage {
  enum class Kind : uint8_t {
    kTemporary,   // of a step
    kConstant,    // for values that are computed once
    kVariable,    // the state of argument `index`
    kSpare,       // the spare of argument `index`, for its new value (StepPlanOptions::atomic)
    kFeed,        // the DTensor fed for argument `index`
    kHostFeed,    // the host tensor fed for argument `index`
    kOutput,      // the DTensor of output `index`
    kHostOutput,  // the host tensor of output `index`
  };
  int64_t bytes = 0;
  Kind kind = Kind::kTemporary;
  int index = 0;
};

// A part of a storage.
struct Buffer {
  int64_t bytes = 0;
  int storage = -1;
  int64_t offset = 0;  // bytes into the storage
};

// Where the instances of a value lie: instance i in buffer first + i.
struct ValueBuffers {
  InstanceMap instances;
  BufferId first = -1;

  BufferId Of(int64_t device) const { return first + static_cast<BufferId>(instances.Of(device)); }
};

}  // namespace meshwork
