// The elements of variables that a domain holds, to compare them bit by bit, and to move them to another session.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "meshwork/base/status.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {

// By variable, the bytes of its blocks here, one instance behind the other, without padding.
using Blocks = std::map<std::string, std::string>;

inline BoxCopy BlockCopy(const DTensor& tensor, int64_t instance, bool is_read) {
  const BoxBuffer buffer =
      BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape, tensor.instances().Representative(instance));
  const Block block = tensor.block(instance);
  BoxBuffer dense;
  for (const Extent& extent : block) {
    dense.start.push_back(extent.start);
    dense.shape.push_back(extent.size);
  }
  return is_read ? BoxCopy(block, buffer, dense) : BoxCopy(block, dense, buffer);
}

inline Blocks BlocksOf(const std::map<std::string, DTensor>& variables) {
  Blocks blocks;
  for (const auto& [name, tensor] : variables) {
    const int64_t size = DTypeSize(tensor.type().dtype);
    for (int64_t i = 0; i < tensor.instances().count(); ++i) {
      const BoxCopy copy = BlockCopy(tensor, i, /*is_read=*/true);
      std::string bytes(static_cast<size_t>(copy.elements() * size), '\0');
      copy.Copy(tensor.instance(i), reinterpret_cast<std::byte*>(bytes.data()), size, 0, copy.elements());
      blocks[name] += bytes;
    }
  }
  return blocks;
}

// Writes what BlocksOf read from variables of the same layouts.
inline void SetBlocks(const Blocks& blocks, std::map<std::string, DTensor> variables) {
  for (auto& [name, tensor] : variables) {
    const int64_t size = DTypeSize(tensor.type().dtype);
    const auto* from = reinterpret_cast<const std::byte*>(blocks.at(name).data());
    for (int64_t i = 0; i < tensor.instances().count(); ++i) {
      const BoxCopy copy = BlockCopy(tensor, i, /*is_read=*/false);
      copy.Copy(from, tensor.instance(i), size, 0, copy.elements());
      from += copy.elements() * size;
    }
  }
}

}  // namespace meshwork
