#include "meshwork/runtime/pjrt/pjrt_step.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "meshwork/base/clock.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/program.h"
#include "meshwork/runtime/exec/replicas.h"
#include "meshwork/runtime/plan/local_program.h"

namespace meshwork {
namespace {

constexpr std::byte kZero{0}, kNan{0xFF};

// The arguments, or the outputs, whose memory is of this kind.
std::set<int> IndicesOf(const StepPlan& plan, Storage::Kind kind) {
  std::set<int> indices;
  for (const Storage& storage : plan.storages)
    if (storage.kind == kind) indices.insert(storage.index);
  return indices;
}

// Calls a function at the end of its block, however that is left, unless it is cancelled.
class AtEnd {
 public:
  explicit AtEnd(std::function<void()> call) : call_(std::move(call)) {}
  ~AtEnd() {
    if (call_ != nullptr) call_();
  }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  void Cancel() { call_ = nullptr; }

 private:
  std::function<void()> call_;
};

absl::Status AwaitAll(std::vector<PjrtEvent>& events, std::string_view what, absl::Status status) {
  for (PjrtEvent& event : events) status.Update(event.Await(what));
  events.clear();
  return status;
}

}  // namespace

ExecutorMemory MemoryOf(const PjrtExecutable& executable) {
  const PjrtMemoryUse& use = executable.memory();
  return {.shared_bytes = executable.num_replicas() * (use.temporary + use.outputs - use.aliased),
          .num_instructions = 1};
}

absl::StatusOr<std::unique_ptr<PreparedStep>> PjrtStep::Create(
    std::shared_ptr<const PjrtClient> client, std::shared_ptr<PjrtMemory> memory,
    std::shared_ptr<const PjrtExecutable> executable, StepPlan plan, std::vector<DTensor> variables,
    const PrepareOptions& options) {
  return std::unique_ptr<PreparedStep>(new PjrtStep(std::move(client), std::move(memory),
                                                    std::move(executable), std::move(plan),
                                                    std::move(variables), options));
}

PjrtStep::PjrtStep(std::shared_ptr<const PjrtClient> client, std::shared_ptr<PjrtMemory> memory,
                   std::shared_ptr<const PjrtExecutable> executable, StepPlan plan,
                   std::vector<DTensor> variables, const PrepareOptions& options)
    : client_(std::move(client)),
      memory_(std::move(memory)),
      executable_(std::move(executable)),
      plan_(std::move(plan)),
      variables_(std::move(variables)),
      options_(options),
      num_devices_(plan_.domain.num_devices()) {
  const Graph& program = *plan_.program;
  const std::set<int> spares = IndicesOf(plan_, Storage::Kind::kSpare),
                      fed = IndicesOf(plan_, Storage::Kind::kFeed),
                      written = IndicesOf(plan_, Storage::Kind::kOutput),
                      host = IndicesOf(plan_, Storage::Kind::kHostOutput);
  for (size_t a = 0; a < program.arguments().size(); ++a) {
    const int index = static_cast<int>(a);
    const Place::Kind kind = variables_[a].valid()                                       ? Place::Kind::kBound
                             : program.arguments()[a].is_variable || fed.contains(index) ? Place::Kind::kFed
                                                                                         : Place::Kind::kHost;
    arguments_.push_back(PlaceOf(program.arguments()[a].value, kind,
                                 fmt::format("input \"{}\"", program.argument_name(index)),
                                 /*is_input=*/true));
    if (kind == Place::Kind::kBound) arguments_.back().blocks.instances = variables_[a].instances();
  }
  for (size_t o = 0; o < program.outputs().size(); ++o) {
    const int index = static_cast<int>(o);
    const Place::Kind kind = written.contains(index) ? Place::Kind::kFed
                             : host.contains(index)  ? Place::Kind::kHost
                                                     : Place::Kind::kNone;
    outputs_.push_back(PlaceOf(program.outputs()[o].value, kind,
                               fmt::format("output \"{}\"", OutputName(program, index)),
                               /*is_input=*/false));
  }
  for (const VariableUpdate& update : program.updates()) {
    const bool to_spare = spares.contains(update.argument);
    const bool is_same = update.value == program.arguments()[static_cast<size_t>(update.argument)].value;
    updates_.push_back({.argument = update.argument, .to_spare = to_spare, .is_kept = to_spare || is_same});
    if (updates_.back().is_kept) kept_.push_back(update.argument);
  }
  in_.resize(arguments_.size() * static_cast<size_t>(num_devices_));
  out_.resize((outputs_.size() + updates_.size()) * static_cast<size_t>(num_devices_));
}

PjrtStep::Place PjrtStep::PlaceOf(ValueId id, Place::Kind kind, std::string what, bool is_input) const {
  const ValueInfo& info = plan_.program->value(id);
  Place place{.kind = kind,
              .what = std::move(what),
              .blocks = {.block = info.type,
                         .instances = InstancesOf(plan_.domain, *info.layout, /*share=*/true),
                         .num_devices = num_devices_}};
  if (kind != Place::Kind::kHost) return place;
  const BoxBuffer whole = BoxBuffer::Whole(info.layout->FactorShape(info.global.shape));
  for (int64_t i = 0; i < place.blocks.instances.count(); ++i) {
    const int64_t device = place.blocks.instances.Representative(i);
    const BoxBuffer buffer = BoxBuffer::OfDevice(*info.layout, info.global.shape, device);
    const Block block = info.layout->BlockOf(info.global.shape, device);
    HostBlock host{.box = is_input ? BoxCopy(block, whole, buffer) : BoxCopy(block, buffer, whole)};
    host.is_whole =
        host.box.elements() > 0 && host.box.contiguous() && host.box.elements() == info.type.num_elements();
    if (!host.is_whole)
      host.elements.resize(static_cast<size_t>(info.type.bytes()), options_.poison_padding ? kNan : kZero);
    place.host.push_back(std::move(host));
  }
  return place;
}

// ---- Before the step.

std::shared_ptr<PjrtImage> PjrtStep::ImageOf(size_t argument, std::span<const std::byte* const> feeds) const {
  return memory_->Find(arguments_[argument].kind == Place::Kind::kBound ? variables_[argument].instance(0)
                                                                        : feeds[argument]);
}

absl::Status PjrtStep::Feed(Place& place, const std::byte* host, size_t argument,
                            std::vector<PjrtBuffer>& made, std::vector<PjrtEvent>& copies) {
  const int64_t size = DTypeSize(place.blocks.block.dtype);
  for (HostBlock& block : place.host)
    if (!block.is_whole) block.box.Copy(host, block.elements.data(), size, 0, block.box.elements());
  for (int64_t device = 0; device < num_devices_; ++device) {
    const HostBlock& block = place.host[static_cast<size_t>(place.blocks.instances.Of(device))];
    const std::byte* const elements =
        block.is_whole ? host + block.box.from_offset() * size : block.elements.data();
    MESHWORK_ASSIGN_OR_RETURN(PjrtBuffer buffer, PjrtBuffer::Upload(client_, device, place.blocks.block,
                                                                    elements, &copies.emplace_back()));
    in_[static_cast<size_t>(device) * arguments_.size() + argument] = buffer.get();
    made.push_back(std::move(buffer));
  }
  return absl::OkStatus();
}

absl::Status PjrtStep::FeedAll(std::span<const std::byte* const> feeds, std::vector<PjrtBuffer>& made,
                               std::vector<PjrtEvent>& copies) {
  for (size_t a = 0; a < arguments_.size(); ++a) {
    Place& place = arguments_[a];
    if (place.kind == Place::Kind::kHost) {
      MESHWORK_RETURN_IF_ERROR(
          Annotate(Feed(place, feeds[a], a, made, copies), fmt::format("{}: ", place.what)));
      continue;
    }
    MESHWORK_ASSIGN_OR_RETURN(
        const std::vector<pjrt::Buffer*> buffers,
        ImageOf(a, feeds)->OnDevices(place.blocks, !plan_.program->arguments()[a].is_variable));
    for (size_t device = 0; device < buffers.size(); ++device)
      in_[device * arguments_.size() + a] = buffers[device];
  }
  return absl::OkStatus();
}

// ---- The step.

void PjrtStep::PrepareSpares() {
  for (const Update& update : updates_) {
    if (!update.to_spare) continue;
    wrote_spares_ = true;
    // Before the new value is there, so that both need not be.
    memory_->Find(variables_[static_cast<size_t>(update.argument)].spare(0))->Forget();
  }
}

void PjrtStep::ForgetWrittenOver(std::span<const std::byte* const> feeds) {
  for (const Update& update : updates_)
    if (!update.is_kept) ImageOf(static_cast<size_t>(update.argument), feeds)->Forget();
}

absl::Status PjrtStep::Run(std::span<const std::byte* const> feeds, std::span<std::byte* const> outputs,
                           std::span<const std::byte* const>) {
  wrote_spares_ = false;
  const double begin = SteadySeconds();
  std::vector<PjrtBuffer> made;
  std::vector<PjrtEvent> copies, ended;
  // The feeds may change when this returns, so that copies of them are waited for.
  MESHWORK_RETURN_IF_ERROR(Annotate(FeedAll(feeds, made, copies), "Run: "));
  const double fed = SteadySeconds();
  PrepareSpares();
  // From here on, buffers that are written over are gone, whatever comes.
  AtEnd forget([&] { ForgetWrittenOver(feeds); });
  std::fill(out_.begin(), out_.end(), nullptr);
  absl::Status status = executable_->Execute(in_, kept_, out_, &ended);
  std::vector<std::vector<PjrtBuffer>> results(outputs_.size() + updates_.size());
  for (size_t i = 0; i < out_.size(); ++i) results[i % results.size()].emplace_back(client_, out_[i]);
  status = AwaitAll(ended, "a step", std::move(status));
  status = AwaitAll(copies, "copying feeds", std::move(status));
  MESHWORK_RETURN_IF_ERROR(Annotate(status, "Run: "));
  const double ran = SteadySeconds();
  if (options_.check_replicas) MESHWORK_RETURN_IF_ERROR(CheckAllReplicas(results));
  ReplaceVariables(results, feeds);
  forget.Cancel();
  MESHWORK_RETURN_IF_ERROR(TakeOutputs(results, outputs));
  if (!options_.profile && options_.trace_steps == 0) return absl::OkStatus();
  times_ = {.steps = times_.steps + 1,
            .feeds = times_.feeds + fed - begin,
            .run = times_.run + ran - fed,
            .outputs = times_.outputs + SteadySeconds() - ran};
  return absl::OkStatus();
}

// ---- After the step.

absl::Status PjrtStep::CheckReplicas(ValueId id, std::string_view subject,
                                     std::span<const PjrtBuffer> buffers) const {
  const ValueInfo& info = plan_.program->value(id);
  const InstanceMap blocks = InstancesOf(plan_.domain, *info.layout, /*share=*/true);
  std::vector<std::byte> first(static_cast<size_t>(info.type.bytes())), second(first.size());
  const auto download = [&](int64_t device, std::vector<std::byte>& to) -> absl::Status {
    PjrtEvent copied;
    MESHWORK_RETURN_IF_ERROR(buffers[static_cast<size_t>(device)].Download(info.type, to.data(), &copied));
    return copied.Await("comparing replicas");
  };
  int64_t held = -1;  // the device whose elements are in `first`
  for (int64_t device = 0; device < num_devices_; ++device) {
    const int64_t representative = blocks.Representative(blocks.Of(device));
    if (representative == device) continue;
    if (held != representative) MESHWORK_RETURN_IF_ERROR(download(representative, first));
    held = representative;
    MESHWORK_RETURN_IF_ERROR(download(device, second));
    const BoxBuffer buffer = BoxBuffer::OfDevice(*info.layout, info.global.shape, device);
    const BoxCopy region(info.layout->BlockOf(info.global.shape, device), buffer, buffer);
    const std::optional<Difference> difference =
        FindDifference(region, 0, region.elements(), DTypeSize(info.type.dtype), first.data(), second.data());
    if (difference.has_value())
      return DifferenceError(fmt::format("Run: {}", subject), info.global, *info.layout, representative,
                             device, *difference);
  }
  return absl::OkStatus();
}

absl::Status PjrtStep::CheckAllReplicas(std::span<const std::vector<PjrtBuffer>> results) const {
  const Graph& program = *plan_.program;
  for (size_t o = 0; o < outputs_.size(); ++o)
    MESHWORK_RETURN_IF_ERROR(CheckReplicas(program.outputs()[o].value, outputs_[o].what, results[o]));
  for (size_t u = 0; u < updates_.size(); ++u)
    MESHWORK_RETURN_IF_ERROR(
        CheckReplicas(program.updates()[u].value,
                      fmt::format("variable \"{}\"", program.argument_name(updates_[u].argument)),
                      results[outputs_.size() + u]));
  return absl::OkStatus();
}

absl::Status PjrtStep::Take(Place& place, std::byte* to, std::span<const PjrtBuffer> buffers) const {
  const int64_t size = DTypeSize(place.blocks.block.dtype);
  std::vector<PjrtEvent> copies(place.host.size());
  absl::Status status;
  for (size_t i = 0; i < place.host.size() && status.ok(); ++i) {
    HostBlock& block = place.host[i];
    const int64_t device = place.blocks.instances.Representative(static_cast<int64_t>(i));
    std::byte* const elements = block.is_whole ? to + block.box.to_offset() * size : block.elements.data();
    status = buffers[static_cast<size_t>(device)].Download(place.blocks.block, elements, &copies[i]);
  }
  MESHWORK_RETURN_IF_ERROR(AwaitAll(copies, "copying to the host", std::move(status)));
  for (const HostBlock& block : place.host)
    if (!block.is_whole) block.box.Copy(block.elements.data(), to, size, 0, block.box.elements());
  return absl::OkStatus();
}

void PjrtStep::ReplaceVariables(std::span<std::vector<PjrtBuffer>> results,
                                std::span<const std::byte* const> feeds) {
  for (size_t u = 0; u < updates_.size(); ++u) {
    const auto argument = static_cast<size_t>(updates_[u].argument);
    const std::shared_ptr<PjrtImage> image =
        updates_[u].to_spare ? memory_->Find(variables_[argument].spare(0)) : ImageOf(argument, feeds);
    image->Replace(arguments_[argument].blocks, std::move(results[outputs_.size() + u]));
  }
}

absl::Status PjrtStep::TakeOutputs(std::span<std::vector<PjrtBuffer>> results,
                                   std::span<std::byte* const> outputs) {
  for (size_t o = 0; o < outputs_.size(); ++o) {
    Place& place = outputs_[o];
    if (place.kind == Place::Kind::kNone || outputs[o] == nullptr) continue;
    if (place.kind == Place::Kind::kFed)
      memory_->Find(outputs[o])->Replace(place.blocks, std::move(results[o]));
    else
      MESHWORK_RETURN_IF_ERROR(
          Annotate(Take(place, outputs[o], results[o]), fmt::format("Run: {}: ", place.what)));
  }
  return absl::OkStatus();
}

meshwork::Profile PjrtStep::Profile() const {
  if (times_.steps == 0) return {};
  const Graph& program = *plan_.program;
  const auto row = [&](std::string op, std::string where, double seconds) {
    const auto ns = static_cast<int64_t>(seconds * 1e9);
    return ProfileRow{
        .op = std::move(op), .where = std::move(where), .calls = times_.steps, .ns = ns, .max_ns = ns};
  };
  meshwork::Profile profile{.workers = 1, .steps = times_.steps};
  profile.rows = {row("pack", "all inputs", times_.feeds), row("program", program.name, times_.run),
                  row("unpack", "all outputs", times_.outputs)};
  profile.rows[1].flops = CountFlops(program) * static_cast<double>(num_devices_ * times_.steps);
  for (const ProfileRow& one : profile.rows) profile.wall_ns += one.ns;
  return profile;
}

void PjrtStep::ClearProfile() { times_ = {}; }

}  // namespace meshwork
