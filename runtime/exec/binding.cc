#include "meshwork/runtime/exec/binding.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/runtime/plan/local_program.h"

namespace meshwork {
namespace {

// Memory that is bound to a step.
struct Region {
  const std::byte* begin = nullptr;
  int64_t bytes = 0;
  std::string what;  // "feed \"x\""
};

bool Overlap(const Region& a, const Region& b) {
  const std::less<> before;
  return a.bytes > 0 && b.bytes > 0 && before(a.begin, b.begin + b.bytes) &&
         before(b.begin, a.begin + a.bytes);
}

Region RegionOf(std::string_view kind, const std::string& name, const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.raw()), tensor.bytes(), fmt::format("{} \"{}\"", kind, name)};
}
Region RegionOf(std::string_view kind, const std::string& name, const DTensor& tensor) {
  return {tensor.instance(0), tensor.bytes(), fmt::format("{} \"{}\"", kind, name)};
}

// The end of the message about a feed of another shape.
std::string HowToFeed(const Shape& fed, const Shape& wanted) {
  if (fed.size() + 1 == wanted.size()) return "; dim 0 is that of the batch, also of one example";
  if (fed.empty() || fed.size() != wanted.size() || fed[0] <= wanted[0] ||
      !std::equal(fed.begin() + 1, fed.end(), wanted.begin() + 1))
    return "";
  return fmt::format("; of more rows, feed {} at a time", wanted[0]);
}

// Checks that memory that is written overlaps no other memory.
absl::Status CheckApart(const std::vector<Region>& written, const std::vector<Region>& read) {
  for (size_t w = 0; w < written.size(); ++w) {
    const auto check = [&](const Region& other) -> absl::Status {
      if (!Overlap(written[w], other)) return absl::OkStatus();
      return InvalidArgument(
          "Run: {} lies in the memory of {}; it is written while others are read or written, so bind memory "
          "of its own.",
          written[w].what, other.what);
    };
    for (const Region& other : read) MESHWORK_RETURN_IF_ERROR(check(other));
    for (size_t o = 0; o < w; ++o) MESHWORK_RETURN_IF_ERROR(check(written[o]));
  }
  return absl::OkStatus();
}

absl::Status NoSuch(std::string_view kind, std::string_view name, const std::vector<std::string>& names,
                    const Graph& local) {
  const std::string hint = DidYouMean(name, names);
  return InvalidArgument("Run: \"{}\" is no {} of {}{}", name, kind, local.name, hint.empty() ? "." : hint);
}

// Checks that distributed tensors are given as DTensors, and others as host tensors.
absl::Status CheckGivenAs(std::string_view kind, const std::set<std::string>& distributed,
                          const std::map<std::string, Tensor>& whole,
                          const std::map<std::string, DTensor>& parts) {
  for (const auto& [name, tensor] : whole)
    if (distributed.contains(name))
      return InvalidArgument(
          "Run: {} \"{}\" is distributed (ExecutorOptions::distributed) and is given as a host tensor; bind "
          "a DTensor (Executor::NewFeed and NewOutput make them).",
          kind, name);
  for (const auto& [name, tensor] : parts)
    if (!distributed.contains(name))
      return InvalidArgument(
          "Run: {} \"{}\" is given as a DTensor and is not distributed; name it in "
          "ExecutorOptions::distributed, or bind a host tensor.",
          kind, name);
  return absl::OkStatus();
}

absl::Status CheckDTensor(const Graph& local, const Domain& domain, const Memory& lies, std::string_view kind,
                          const std::string& name, const DTensor& tensor) {
  MESHWORK_ASSIGN_OR_RETURN(const ValueId id,
                            kind == "feed" ? FindInput(local, name) : FindOutput(local, name));
  const ValueInfo& info = local.value(id);
  if (!tensor.valid())
    return InvalidArgument(
        "Run: {} \"{}\" is a DTensor without elements; the program takes {} {} (Executor::NewFeed and "
        "NewOutput make them).",
        kind, name, info.global.ToString(), info.layout->ToString());
  if (tensor.type() != info.global || tensor.layout() != *info.layout)
    return InvalidArgument("Run: {} \"{}\" is {} {} on {}; the program takes {} {} on {}.", kind, name,
                           tensor.type().ToString(), tensor.layout().ToString(),
                           tensor.layout().mesh().ToString(), info.global.ToString(), info.layout->ToString(),
                           local.mesh().ToString());
  if (&tensor.memory() != &lies)
    return InvalidArgument("Run: {} \"{}\" lies in {}; the step's backend works in {}.", kind, name,
                           tensor.memory().name(), lies.name());
  const int64_t instances = InstancesOf(domain, *info.layout, true).count();
  if (tensor.domain() != domain || tensor.instances().count() != instances) {
    const auto place = [](int64_t count, const Domain& of) {
      return fmt::format("{} of domain {} of {}", Count(count, "instance"), of.index(),
                         of.placement().ToString());
    };
    return InvalidArgument(
        "Run: {} \"{}\" has {}; the step has {} (Executor::NewFeed and NewOutput make them).", kind, name,
        place(tensor.instances().count(), tensor.domain()), place(instances, domain));
  }
  return absl::OkStatus();
}

// "step(x: f32[128,784], y: i32[128])", the inputs.
std::string Signature(const Graph& local) {
  std::vector<std::string> inputs;
  for (const Argument& argument : local.arguments()) {
    if (argument.is_variable) continue;
    const ValueInfo& info = local.value(argument.value);
    inputs.push_back(fmt::format("{}: {}", info.name, info.global.ToString()));
  }
  return fmt::format("{}({})", local.name, fmt::join(inputs, ", "));
}

}  // namespace

absl::Status CheckFeeds(const Graph& local, const std::set<std::string>& distributed,
                        const StepMemory& memory) {
  MESHWORK_RETURN_IF_ERROR(CheckGivenAs("feed", distributed, memory.feeds, memory.distributed_feeds));
  const std::map<std::string, Tensor>& feeds = memory.feeds;
  for (const auto& [name, tensor] : feeds) {
    const int a = local.FindArgument(name);
    if (a >= 0 && !local.arguments()[a].is_variable) continue;
    if (a >= 0) {
      return InvalidArgument(
          "Run: feed \"{}\" is a variable; the program keeps its value; set it between steps (Session::Set, "
          "or Pack).",
          name);
    }
    std::vector<std::string> inputs;
    for (size_t i = 0; i < local.arguments().size(); ++i)
      if (!local.arguments()[i].is_variable) inputs.push_back(local.argument_name(static_cast<int>(i)));
    std::string hint = DidYouMean(name, inputs);
    return InvalidArgument("Run: feed \"{}\" is no input of {}{}", name, Signature(local),
                           hint.empty() ? "." : hint);
  }
  for (const Argument& argument : local.arguments()) {
    if (argument.is_variable) continue;
    const ValueInfo& info = local.value(argument.value);
    if (memory.distributed_feeds.contains(info.name)) continue;
    const auto it = feeds.find(info.name);
    if (it == feeds.end()) {
      return InvalidArgument(
          "Run: feed \"{}\" is missing; {} takes every input at every step: feed it, or drop an input that nothing "
          "reads.",
          info.name, Signature(local));
    }
    const Type& type = it->second.type();
    MESHWORK_RETURN_IF_ERROR(Annotate(it->second.status(), fmt::format("Run: feed \"{}\": ", info.name)));
    if (type.shape != info.global.shape) {
      return InvalidArgument(
          "Run: feed \"{}\" is {}; the program takes {}, compile it for this shape or feed that one{}.",
          info.name, type.ToString(), info.global.ToString(), HowToFeed(type.shape, info.global.shape));
    }
    if (type.dtype != info.global.dtype) {
      return InvalidArgument(
          "Run: feed \"{}\" is {}; the program takes {}, convert it or cast inside the program.", info.name,
          type.ToString(), info.global.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Graph& local, const std::set<std::string>& distributed,
                          const StepMemory& memory) {
  MESHWORK_RETURN_IF_ERROR(CheckGivenAs("output", distributed, memory.outputs, memory.distributed_outputs));
  std::map<std::string, Type> types;
  std::vector<std::string> names;
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    names.push_back(OutputName(local, static_cast<int>(o)));
    types[names.back()] = local.value(local.outputs()[o].value).global;
  }
  for (const auto& [name, tensor] : memory.outputs) {
    const auto type = types.find(name);
    if (type == types.end()) {
      const std::string hint = DidYouMean(name, names);
      return InvalidArgument("Run: \"{}\" is no output of {}, which has {}{}", name, Signature(local),
                             names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")),
                             hint.empty() ? "." : hint);
    }
    if (!tensor.valid() || tensor.type() != type->second) {
      return InvalidArgument(
          "Run: output \"{}\" is bound to {}; the program gives {}, so bind a tensor of that type "
          "(Executor::NewOutputs makes them).",
          name, tensor.valid() ? tensor.type().ToString() : "a Tensor without elements",
          type->second.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDTensors(const Graph& local, const Domain& domain, const Memory& lies,
                           const StepMemory& memory) {
  for (const auto& [name, tensor] : memory.distributed_feeds)
    MESHWORK_RETURN_IF_ERROR(CheckDTensor(local, domain, lies, "feed", name, tensor));
  for (const auto& [name, tensor] : memory.distributed_outputs)
    MESHWORK_RETURN_IF_ERROR(CheckDTensor(local, domain, lies, "output", name, tensor));
  return absl::OkStatus();
}

absl::Status CheckStaged(const Memory& lies, const StepMemory& memory) {
  for (const auto& [name, staged] : memory.staged) {
    const auto fed = memory.feeds.find(name);
    if (fed == memory.feeds.end() || !staged.Holds(fed->second))
      return InvalidArgument(
          "Run: what is staged for feed \"{}\" is not the tensor that is fed; stage that one, or leave it out of "
          "StepMemory::staged.",
          name);
    if (&staged.memory() != &lies)
      return InvalidArgument(
          "Run: feed \"{}\" is staged in {} by another backend than the step's, which works in {}; give both sessions one "
          "SessionOptions::backend.",
          name, staged.memory().name(), lies.name());
  }
  return absl::OkStatus();
}

absl::Status CheckApart(const Graph& local, const InPlace& in_place,
                        const std::map<std::string, DTensor>& state, const StepMemory& memory) {
  std::set<std::string> written_feeds, updated;
  for (const auto& [output, input] : in_place) written_feeds.insert(input);
  for (const VariableUpdate& update : local.updates()) updated.insert(local.argument_name(update.argument));
  std::vector<Region> written, read;
  for (const auto& [name, tensor] : memory.feeds) read.push_back(RegionOf("feed", name, tensor));
  for (const auto& [name, tensor] : state)
    (updated.contains(name) ? written : read).push_back(RegionOf("variable", name, tensor));
  for (const auto& [name, tensor] : memory.distributed_feeds)
    (written_feeds.contains(name) ? written : read).push_back(RegionOf("feed", name, tensor));
  for (const auto& [name, tensor] : memory.outputs) written.push_back(RegionOf("output", name, tensor));
  for (const auto& [name, tensor] : memory.distributed_outputs)
    if (!in_place.contains(name)) written.push_back(RegionOf("output", name, tensor));
  return CheckApart(written, read);
}

absl::StatusOr<ValueId> FindInput(const Graph& local, std::string_view name) {
  std::vector<std::string> names;
  for (const Argument& argument : local.arguments()) {
    if (argument.is_variable) continue;
    names.push_back(local.value(argument.value).name);
    if (names.back() == name) return argument.value;
  }
  return NoSuch("input", name, names, local);
}

absl::StatusOr<ValueId> FindOutput(const Graph& local, std::string_view name) {
  std::vector<std::string> names;
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    names.push_back(OutputName(local, static_cast<int>(o)));
    if (names.back() == name) return local.outputs()[o].value;
  }
  return NoSuch("output", name, names, local);
}

}  // namespace meshwork
