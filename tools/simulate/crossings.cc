#include "meshwork/tools/simulate/crossings.h"

#include <algorithm>

namespace meshwork {
namespace {

double BytesOfParts(const Schedule& schedule, const std::vector<RemoteStep::Part>& parts) {
  double bytes = 0;
  for (const RemoteStep::Part& part : parts)
    bytes += static_cast<double>(schedule.buffers[static_cast<size_t>(part.buffer)].bytes);
  return bytes;
}

}  // namespace

double BytesCrossing(const Schedule& schedule, const Instruction& instruction) {
  return std::max(BytesOfParts(schedule, instruction.sends), BytesOfParts(schedule, instruction.receives));
}

double Crossings::BytesOf(const OperationPath& operation) const {
  const auto at = bytes_.find(operation);
  return at != bytes_.end() ? at->second : 0;
}

void Crossings::Add(const Schedule& schedule, const OperationPath& around) {
  int loops = 0;
  for (const Instruction& instruction : schedule.instructions) {
    OperationPath path = around;
    if (instruction.loop != nullptr) {
      path.insert(path.end(), {loops++, 0});
      for (const LoopPlan::Body& body : instruction.loop->bodies) {
        Add(body.schedule, path);
        ++path.back();
      }
    } else if (instruction.is_remote() && instruction.kind != Instruction::Kind::kWait) {
      path.push_back(instruction.operation);
      double& most = bytes_[path];
      most = std::max(most, BytesCrossing(schedule, instruction));
    }
  }
}

}  // namespace meshwork
