#include "meshwork/runtime/plan/messages.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "meshwork/runtime/plan/transfer.h"
#include "meshwork/runtime/tensor/box.h"

namespace meshwork {
namespace {

size_t EndOfMessage(const std::vector<Crossed>& all, size_t begin, int64_t Crossed::*domain) {
  size_t end = begin;
  while (end < all.size() && all[end].*domain == all[begin].*domain) ++end;
  return end;
}

BufferId AddGhost(const Crossed& crossed, StepPlan& plan) {
  const int64_t bytes = plan.graph->value(crossed.value).type.bytes();
  return plan.AddBuffers(1, bytes, plan.AddStorage({bytes}));
}

// The buffer in which elements [begin, end) of `all` cross to or from one domain, one behind the other. If they are one
// range of one buffer, it is that range itself.
template <typename BufferOf>
BufferId AddMessage(const std::vector<Crossed>& all, size_t begin, size_t end, const BufferOf& buffer_of,
                    bool packs, CopyStep& copies, StepPlan& plan) {
  const Graph& local = *plan.graph;
  const auto size_of = [&](size_t k) { return DTypeSize(local.value(all[k].value).type.dtype); };
  if (end == begin + 1 && all[begin].elements.size() == 1) {
    const auto [first, last] = all[begin].elements[0];
    const Buffer lies = plan.buffers[buffer_of(begin)];
    plan.buffers.push_back(
        {(last - first) * size_of(begin), lies.storage, lies.offset + first * size_of(begin)});
    return static_cast<BufferId>(plan.buffers.size()) - 1;
  }
  int64_t bytes = 0;
  for (size_t k = begin; k < end; ++k) bytes += all[k].num_elements() * size_of(k);
  const int storage = plan.AddStorage({bytes});
  int64_t offset = 0;
  for (size_t k = begin; k < end; ++k) {
    // The elements of one instance have a buffer of their own in the message, and lie there in their order.
    const int64_t count = all[k].num_elements();
    plan.buffers.push_back({count * size_of(k), storage, offset});
    const auto part = static_cast<BufferId>(plan.buffers.size()) - 1;
    offset += count * size_of(k);
    int64_t at = 0;
    for (const ElementRuns& runs : RunsOf(all[k].elements)) {
      Transfer transfer;
      transfer.dtype = local.value(all[k].value).type.dtype;
      transfer.box = packs ? BoxCopy::Runs(runs.count, runs.size, runs.begin, runs.step, at, runs.size)
                           : BoxCopy::Runs(runs.count, runs.size, at, runs.size, runs.begin, runs.step);
      transfer.from.push_back(packs ? buffer_of(k) : part);
      transfer.to = packs ? part : buffer_of(k);
      at += runs.count * runs.size;
      copies.Add(std::move(transfer), plan.domain.first_device());
    }
  }
  return plan.AddBuffers(1, bytes, storage);
}

// Adds a round: the elements of `sent` are sent from their buffers, and those of received[k] arrive in buffer to(k).
template <typename To>
void AddRound(int node, const std::vector<Crossed>& sent, const std::vector<Crossed>& received,
              const std::vector<ValueBuffers>& values, const To& to, StepPlan& plan, std::vector<Step>& begin,
              std::vector<Step>& end) {
  CopyStep send{.kind = CopyStep::Kind::kSend, .node = node},
      receive{.kind = CopyStep::Kind::kReceive, .node = node};
  RemoteStep remote{.kind = RemoteStep::Kind::kStart, .node = node, .operation = plan.num_operations++};
  for (size_t first = 0, last; first < sent.size(); first = last) {
    last = EndOfMessage(sent, first, &Crossed::to_domain);
    const auto from = [&](size_t k) { return values[sent[k].value].Of(sent[k].device); };
    remote.sends.push_back(
        {sent[first].to_domain, AddMessage(sent, first, last, from, /*packs=*/true, send, plan)});
  }
  for (size_t first = 0, last; first < received.size(); first = last) {
    last = EndOfMessage(received, first, &Crossed::from_domain);
    remote.receives.push_back(
        {received[first].from_domain, AddMessage(received, first, last, to, /*packs=*/false, receive, plan)});
  }
  if (!send.transfers.empty()) begin.emplace_back(std::move(send));
  begin.emplace_back(remote);
  remote.kind = RemoteStep::Kind::kWait;
  end.emplace_back(std::move(remote));
  if (!receive.transfers.empty()) end.emplace_back(std::move(receive));
}

}  // namespace

CrossingSteps PlanMessages(int node, Crossing crossing, const std::vector<ValueBuffers>& values,
                           StepPlan& plan) {
  CrossingSteps steps;
  std::vector<BufferId> ghosts;
  for (const Crossed& crossed : crossing.received) ghosts.push_back(AddGhost(crossed, plan));
  AddRound(
      node, crossing.sent, crossing.received, values, [&](size_t k) { return ghosts[k]; }, plan, steps.begin,
      steps.middle);
  CopyStep copies{.kind = CopyStep::Kind::kCollective, .node = node};
  for (Transfer& transfer : crossing.transfers)
    for (BufferId& from : transfer.from)
      if (from < 0) from = ghosts[static_cast<size_t>(-1 - from)];
  copies.transfers = std::move(crossing.transfers);
  copies.devices = std::move(crossing.devices);
  steps.middle.emplace_back(std::move(copies));
  if (!crossing.takes_two_rounds) return steps;
  const std::vector<Crossed>& parts = crossing.received_parts;
  const auto result = [&](size_t k) { return values[parts[k].value].Of(parts[k].device); };
  AddRound(node, crossing.sent_parts, parts, values, result, plan, steps.middle, steps.end);
  return steps;
}

}  // namespace meshwork
