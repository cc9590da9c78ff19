// ToString of step plans.
#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/runtime/plan/local_program.h"
#include "meshwork/runtime/plan/step_plan.h"

namespace meshwork {
namespace {

class Printer {
 public:
  Printer(const StepPlan& plan, int depth) : plan_(plan), indent_(static_cast<size_t>(depth) * 2, ' ') {}

  std::string Print() && {
    for (size_t s = 0; s < plan_.storages.size(); ++s) {
      const Storage& storage = plan_.storages[s];
      Line(fmt::format("s{}: {}, {}", s, KindOf(storage), Count(storage.bytes, "byte")));
    }
    for (const Step& step : plan_.steps) std::visit([this](const auto& kind) { Add(kind); }, step);
    return std::move(out_);
  }

 private:
  void Line(std::string_view text) { out_ += fmt::format("{}{}\n", indent_, text); }

  std::string KindOf(const Storage& storage) const {
    switch (storage.kind) {
      case Storage::Kind::kTemporary: return "temporary";
      case Storage::Kind::kConstant: return "constant";
      case Storage::Kind::kVariable: return "variable " + plan_.graph->argument_name(storage.index);
      case Storage::Kind::kSpare: return "spare of " + plan_.graph->argument_name(storage.index);
      case Storage::Kind::kFeed: return "feed " + plan_.graph->argument_name(storage.index);
      case Storage::Kind::kHostFeed: return "host feed " + plan_.graph->argument_name(storage.index);
      case Storage::Kind::kOutput: return "output " + OutputName(*plan_.graph, storage.index);
      case Storage::Kind::kHostOutput: return "host output " + OutputName(*plan_.graph, storage.index);
    }
    return "";
  }

  static std::string_view NameOf(CopyStep::Kind kind) {
    switch (kind) {
      case CopyStep::Kind::kPack: return "pack";
      case CopyStep::Kind::kCollective: return "collective";
      case CopyStep::Kind::kSend: return "send";
      case CopyStep::Kind::kReceive: return "receive";
      case CopyStep::Kind::kUnpack: return "unpack";
      case CopyStep::Kind::kAssign: return "assign";
      case CopyStep::Kind::kCompare: return "compare";
    }
    return "";
  }

  // "s2*4 s3": four instances in storage 2, one in storage 3.
  std::string Values(const std::vector<ValueBuffers>& values) const {
    std::vector<std::string> texts;
    for (const ValueBuffers& value : values) {
      texts.push_back(fmt::format("s{}", plan_.buffers[value.first].storage));
      if (value.instances.count() > 1) texts.back() += fmt::format("*{}", value.instances.count());
    }
    return fmt::format("{}", fmt::join(texts, " "));
  }

  static std::string Types(const std::vector<TensorSpec>& tensors) {
    std::vector<std::string> texts;
    for (const TensorSpec& tensor : tensors) texts.push_back(tensor.local.ToString());
    return fmt::format("{}", fmt::join(texts, " "));
  }

  static std::string Arrow(std::string_view from, std::string_view to) {
    return from.empty() ? fmt::format("-> {}", to) : fmt::format("{} -> {}", from, to);
  }

  // "matmul+all_reduce f32[4,3,2] f32[4,3,2] -> f32[2,2]: s2*4 s4*4 -> s5"
  void Add(const ComputeStep& step) {
    std::string text = step.once ? "once " : "";
    text += plan_.graph->nodes()[step.node].row->name;
    if (step.reduces >= 0) text += fmt::format("+{}", plan_.graph->nodes()[step.reduces].row->name);
    if (step.needed < step.items.count()) text += fmt::format(" {} of {}", step.needed, step.items.count());
    if (step.one_by_one) text += " each";
    Line(fmt::format("{} {}: {}", text, Arrow(Types(step.spec.operands), Types(step.spec.results)),
                     Arrow(Values(step.in), Values(step.out))));
  }

  // "all_reduce, 1 transfer of 4 elements: s4 -> s5"
  void Add(const CopyStep& step) {
    std::vector<int> from, to;
    const auto add = [&](BufferId buffer, std::vector<int>& storages) {
      const int storage = plan_.buffers[buffer].storage;
      if (std::find(storages.begin(), storages.end(), storage) == storages.end()) storages.push_back(storage);
    };
    int64_t elements = 0;
    for (const Transfer& transfer : step.transfers) {
      for (BufferId buffer : transfer.from) add(buffer, from);
      if (transfer.to >= 0) add(transfer.to, to);
      elements += transfer.box.elements();
    }
    std::string name(NameOf(step.kind));
    if (step.kind == CopyStep::Kind::kCollective) name = plan_.graph->nodes()[step.node].row->name;
    if (!step.calls.empty())
      name += fmt::format(" by {} of a cross-device op", Count(std::ssize(step.calls), "call"));
    else if (step.node >= 0 && step.kind != CopyStep::Kind::kCollective)
      name += fmt::format(" of {}", plan_.graph->nodes()[step.node].row->name);
    else if (step.node < 0) name += fmt::format(" {}", step.subject);
    std::string text = fmt::format("{}, {} of {}:", name, Count(std::ssize(step.transfers), "transfer"),
                                   Count(elements, "element"));
    for (int storage : from) text += fmt::format(" s{}", storage);
    if (!to.empty()) text += " ->";
    for (int storage : to) text += fmt::format(" s{}", storage);
    Line(text);
  }

  // "all_reduce across domains: 16 bytes of s4 to 1, 16 bytes of s5 from 1"; "start 0 of all_reduce …", "wait for 0";
  // with sums "all_reduce across domains: sum of 4 elements f32 s4 -> s5"
  void Add(const RemoteStep& step) {
    if (step.kind == RemoteStep::Kind::kWait) return Line(fmt::format("wait for {}", step.operation));
    std::vector<std::string> parts;
    const auto add = [&](std::string_view way, const std::vector<RemoteStep::Part>& all) {
      for (const RemoteStep::Part& part : all) {
        const Buffer& buffer = plan_.buffers[part.buffer];
        parts.push_back(
            fmt::format("{} of s{} {} {}", Count(buffer.bytes, "byte"), buffer.storage, way, part.domain));
      }
    };
    if (step.sums.empty()) {
      add("to", step.sends);
      add("from", step.receives);
    }
    for (size_t i = 0; i < step.sums.size(); ++i)
      parts.push_back(fmt::format("{} of {} {} s{} -> s{}", ReduceOpName(step.sums[i].op),
                                  Count(step.sums[i].elements, "element"), DTypeName(step.sums[i].dtype),
                                  plan_.buffers[step.sends[i].buffer].storage,
                                  plan_.buffers[step.receives[i].buffer].storage));
    const std::string start =
        step.kind == RemoteStep::Kind::kStart ? fmt::format("start {} of ", step.operation) : "";
    Line(fmt::format("{}{} across domains: {}", start,
                     step.is_fence() ? "fence" : plan_.graph->nodes()[step.node].row->name,
                     parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "))));
  }

  // "repeat 3 times: s2 s3 -> s4", then where the arguments of each body lie, and its plan.
  void Add(const NestedStep& step) {
    std::string head = fmt::format("repeat {}", Count(step.length, "time"));
    if (step.kind != NestedStep::Kind::kRepeat) {
      head = fmt::format("{} s{}", step.kind == NestedStep::Kind::kWhile ? "while" : "if",
                         plan_.buffers[step.predicate].storage);
    }
    Line(fmt::format("{}: {}", head, Arrow(Values(step.in), Values(step.out))));
    for (const StepPlan& body : step.bodies) {
      std::vector<std::string> arguments;
      for (size_t a = 0; a < step.arguments.size(); ++a)
        arguments.push_back(fmt::format("{}=s{}", body.graph->argument_name(static_cast<int>(a)),
                                        plan_.buffers[step.arguments[a]].storage));
      Line(fmt::format("  body {}", fmt::join(arguments, " ")));
      out_ += Printer(body, static_cast<int>(indent_.size()) / 2 + 2).Print();
    }
  }

  const StepPlan& plan_;
  const std::string indent_;
  std::string out_;
};

}  // namespace

std::string ToString(const StepPlan& plan) { return Printer(plan, 0).Print(); }

}  // namespace meshwork
