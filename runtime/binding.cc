#include "meshwork/runtime/binding.h"

#include <functional>
#include <string_view>
#include <vector>

#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/base/suggest.h"
#include "meshwork/runtime/local_program.h"

namespace meshwork {
namespace {

bool Overlap(const Tensor& a, const Tensor& b) {
  const auto* a_begin = static_cast<const std::byte*>(a.raw());
  const auto* b_begin = static_cast<const std::byte*>(b.raw());
  const std::less<> before;
  if (a.bytes() == 0 || b.bytes() == 0) return false;
  return before(a_begin, b_begin + b.bytes()) && before(b_begin, a_begin + a.bytes());
}

absl::Status CheckApart(std::string_view output, const Tensor& tensor, std::string_view kind,
                        const std::map<std::string, Tensor>& others) {
  for (const auto& [name, other] : others) {
    if (name == output && kind == "output") continue;
    if (!Overlap(tensor, other)) continue;
    return InvalidArgument(
        "Run: output \"{}\" lies in the memory of {} \"{}\"; outputs are written while others are read or "
        "written, so bind memory of its own.",
        output, kind, name);
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

absl::Status CheckFeeds(const Graph& local, const std::map<std::string, Tensor>& feeds) {
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
    const auto it = feeds.find(info.name);
    if (it == feeds.end()) {
      return InvalidArgument("Run: feed \"{}\" is missing; {} takes every input at every step.", info.name,
                             Signature(local));
    }
    const Type& type = it->second.type();
    RETURN_IF_ERROR(Annotate(it->second.status(), fmt::format("Run: feed \"{}\": ", info.name)));
    if (type.shape != info.global.shape) {
      return InvalidArgument(
          "Run: feed \"{}\" is {}; the program takes {}, compile it for this shape or feed that one.",
          info.name, type.ToString(), info.global.ToString());
    }
    if (type.dtype != info.global.dtype) {
      return InvalidArgument(
          "Run: feed \"{}\" is {}; the program takes {}, convert it or cast inside the program.", info.name,
          type.ToString(), info.global.ToString());
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputs(const Graph& local, const std::map<std::string, Tensor>& feeds,
                          const std::map<std::string, Tensor>& outputs) {
  std::map<std::string, Type> types;
  std::vector<std::string> names;
  for (size_t o = 0; o < local.outputs().size(); ++o) {
    names.push_back(OutputName(local, static_cast<int>(o)));
    types[names.back()] = local.value(local.outputs()[o].value).global;
  }
  for (const auto& [name, tensor] : outputs) {
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
    RETURN_IF_ERROR(CheckApart(name, tensor, "feed", feeds));
    RETURN_IF_ERROR(CheckApart(name, tensor, "output", outputs));
  }
  return absl::OkStatus();
}

}  // namespace meshwork
