// Variables of a program on several domains, saved and read back, for tests.
#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/runtime/cpu/cpu_memory.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/storage/checkpoint_writer.h"

namespace meshwork {

struct SavedVariable {
  std::string name;
  Type type;
  std::string layout;
};

// A weight, optimizer state and others, of all dtypes, on a mesh with axes a and b; some have dims that 4 does not
// divide.
inline std::vector<SavedVariable> SavedModel() {
  return {{"adam/m", {F32, {10, 7}}, "{(a,b),_}"},
          {"bias", {F64, {7}}, "{a}"},
          {"count", {I64, {}}, "{}"},
          {"empty", {F32, {0, 3}}, "{a,_}"},
          {"mask", {BOOL, {5, 3}}, "{b,_}"},
          {"narrow", {BF16, {9}}, "{_}"},
          {"strided", {I32, {24}}, "{4@b*6@a}"},
          {"w", {F32, {10, 7}}, "{_,_}"}};
}

// A tensor whose elements all differ, as far as the dtype can.
inline Tensor Numbered(const Type& type, int64_t first = 1) {
  Tensor tensor(type);
  auto* bytes = static_cast<unsigned char*>(tensor.raw());
  const int64_t size = DTypeSize(type.dtype);
  for (int64_t i = 0; i < type.num_elements(); ++i) {
    const int64_t value = type.dtype == BOOL ? (first + i) * 7 % 5 % 2 : first + i;
    std::memcpy(bytes + i * size, &value, static_cast<size_t>(size));
  }
  return tensor;
}

// The state of one domain: blocks of Numbered tensors, the first from `first` on, each next one from 1000 more; or, if
// `filled` is false, of zeros.
inline std::map<std::string, DTensor> StateOf(const std::string& mesh, int64_t domains, int64_t domain,
                                              const std::vector<SavedVariable>& variables, bool filled,
                                              bool share = true, int64_t first = 1) {
  const Placement placement = Placement::Create(Mesh::Parse(mesh).value(), domains).value();
  std::map<std::string, DTensor> state;
  for (const SavedVariable& variable : variables) {
    DTensor tensor(Domain(placement, domain), CpuMemory(), variable.type,
                   Layout::Parse(placement.mesh(), variable.layout).value(), share);
    if (filled) {
      EXPECT_EQ(MessageOf(Pack(Numbered(variable.type, first), tensor)), "");
    }
    first += 1000;
    state.emplace(variable.name, std::move(tensor));
  }
  return state;
}

// The contents of each instance's block, without padding.
inline std::vector<std::string> BlocksOf(const DTensor& tensor) {
  std::vector<std::string> blocks;
  for (int64_t i = 0; i < tensor.instances().count(); ++i) {
    const BoxBuffer buffer =
        BoxBuffer::OfDevice(tensor.layout(), tensor.type().shape, tensor.instances().Representative(i));
    BoxBuffer dense;
    for (const Extent& extent : tensor.block(i)) {
      dense.start.push_back(extent.start);
      dense.shape.push_back(extent.size);
    }
    const BoxCopy copy(tensor.block(i), buffer, dense);
    const int64_t size = DTypeSize(tensor.type().dtype);
    std::string& bytes = blocks.emplace_back(static_cast<size_t>(copy.elements() * size), '\0');
    copy.Copy(tensor.instance(i), reinterpret_cast<std::byte*>(bytes.data()), size, 0, copy.elements());
  }
  return blocks;
}

// Saves Numbered variables in all domains at the same time. Returns each domain's result.
inline std::vector<absl::Status> SaveAll(const std::string& dir, const std::string& mesh, int64_t domains,
                                         const std::vector<SavedVariable>& variables,
                                         const CheckpointNote& note = {.step = 1}) {
  std::vector<absl::Status> ended(static_cast<size_t>(domains));
  std::vector<std::thread> threads;
  for (int64_t domain = 0; domain < domains; ++domain) {
    threads.emplace_back([&, domain] {
      const std::map<std::string, DTensor> state = StateOf(mesh, domains, domain, variables, /*filled=*/true);
      absl::Status& status = ended[static_cast<size_t>(domain)];
      auto writer = CheckpointWriter::Open(
          {.dir = dir, .domain = domain, .num_domains = domains, .job = fmt::format("job{}", note.step)});
      status = writer.status();
      if (status.ok()) status = (*writer)->Begin(note, state);
      if (status.ok()) status = (*writer)->Wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ended;
}

}  // namespace meshwork
