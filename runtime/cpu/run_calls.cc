#include "meshwork/runtime/cpu/run_calls.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "meshwork/base/status.h"

namespace meshwork {
namespace {

// Calls the op for one pack; an exception becomes a status.
absl::Status CallOps(CrossDeviceOps& ops, const ReducePack& pack, std::span<std::byte* const> results) {
  try {
    return results.size() == pack.devices.size() ? ops.AllReduce(pack, results) : ops.Reduce(pack);
  } catch (...) {
    return CaughtFromCrossDeviceOps();
  }
}

}  // namespace

absl::Status CaughtFromCrossDeviceOps() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("there is not enough memory for what it works with.");
  } catch (const std::exception& exception) {
    return absl::InternalError(
        fmt::format("it threw \"{}\"; return an absl::Status instead.", exception.what()));
  } catch (...) {
    return absl::InternalError("it threw what is no std::exception; return an absl::Status instead.");
  }
}

void CallRoom::MakeFor(const CrossDeviceCall& call) {
  terms.resize(std::max(terms.size(), call.devices.size()));
  results.resize(std::max(results.size(), static_cast<size_t>(call.results)));
}

absl::Status RunCalls(CrossDeviceOps& ops, const Instruction& instruction, int worker,
                      std::span<std::byte* const> addresses, bool marks, CallRoom& room) {
  const std::vector<WorkSlice>& slices = instruction.slices[static_cast<size_t>(worker)];
  size_t c = 0;
  for (size_t s = 0; s < slices.size();) {
    const auto [item, begin, end] = slices[s];
    while (instruction.calls[c].first != item) ++c;
    const CrossDeviceCall& call = instruction.calls[c];
    const Transfer& first = instruction.transfers[static_cast<size_t>(item)];
    const int64_t size = DTypeSize(first.dtype);
    for (size_t k = 0; k < call.devices.size(); ++k)
      room.terms[k] = addresses[static_cast<size_t>(first.from[k])] + begin * size;
    const auto num_results = static_cast<size_t>(call.results);
    for (size_t k = 0; k < num_results; ++k) {
      const BufferId to = instruction.transfers[static_cast<size_t>(item) + k].to;
      room.results[k] = addresses[static_cast<size_t>(to)] + begin * size;
      if (marks)
        std::memset(room.results[k], k == 0 ? 0xFF : 0xFE, static_cast<size_t>((end - begin) * size));
    }
    const ReducePack pack{.dtype = first.dtype,
                          .op = first.op,
                          .count = end - begin,
                          .devices = call.devices,
                          .terms = std::span(room.terms).first(call.devices.size()),
                          .to = room.results[0]};
    const absl::Status status = CallOps(ops, pack, std::span(room.results).first(num_results));
    MESHWORK_RETURN_IF_ERROR(Annotate(
        status,
        fmt::format("the cross-device op \"{}\", over {} of {}: ", ops.name(),
                    Count(std::ssize(call.devices), "device"), Type{first.dtype, {pack.count}}.ToString())));
    s += num_results;
  }
  return absl::OkStatus();
}

}  // namespace meshwork
