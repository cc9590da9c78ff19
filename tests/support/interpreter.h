// Runs a global program on one device, node by node, with the rows' own CPU kernels: the reference for the
// results of the partitioner and the runtime.
//
//   Graph g = ParseGraph("mesh []\nfunc f(%x: f64[2]) { %0 = neg %x return y=%0 }").value();
//   Interpret(g, {{"x", {1, 2}}}).outputs.at("y").Numbers()   -> {-1, -2}
//
// Numbers go in and out as doubles, which hold every element type exactly (i64 up to 2^53).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwork/base/cpu_dispatch.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/graph.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/type.h"
#include "meshwork/ops/kernels/blas/cpu_kernels.h"

namespace meshwork {

using NumbersByName = std::map<std::string, std::vector<double>>;

// A dense row-major tensor.
class HostTensor {
 public:
  HostTensor() = default;
  // The content is arbitrary, not zeros, so that elements which a kernel fails to write are seen.
  explicit HostTensor(Type type)
      : type_(std::move(type)),
        words_(static_cast<size_t>(type_.bytes() / 8 + 1),
               type_.dtype == BOOL ? 0x0101010101010101u : 0xa5a5a5a5a5a5a5a5u) {}
  // `numbers` converted to the dtype, one per element.
  HostTensor(Type type, const std::vector<double>& numbers) : HostTensor(std::move(type)) {
    MESHWORK_CHECK(static_cast<int64_t>(numbers.size()) == type_.num_elements(), "{} numbers for {}",
                   numbers.size(), type_.ToString());
    DispatchAny(type_.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (size_t i = 0; i < numbers.size(); ++i) data<T>()[i] = static_cast<T>(numbers[i]);
    });
  }

  const Type& type() const { return type_; }
  template <typename T>
  T* data() {
    return static_cast<T*>(static_cast<void*>(words_.data()));
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(static_cast<const void*>(words_.data()));
  }
  std::vector<double> Numbers() const {
    std::vector<double> numbers(static_cast<size_t>(type_.num_elements()));
    DispatchAny(type_.dtype, [&](auto zero) {
      using T = decltype(zero);
      // A bool is compared as its byte: a byte of padding is not a valid bool.
      using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(data<Stored>()[i]);
    });
    return numbers;
  }
  // The one element of a scalar.
  double Number() const {
    MESHWORK_CHECK(type_.num_elements() == 1, "{}", type_.ToString());
    return Numbers()[0];
  }
  // Bit by bit.
  bool operator==(const HostTensor& other) const {
    return type_ == other.type_ &&
           std::memcmp(words_.data(), other.words_.data(), static_cast<size_t>(type_.bytes())) == 0;
  }

 private:
  Type type_;
  std::vector<uint64_t> words_;
};

// A kernel's view of an operand or result: a buffer, and the part of a whole tensor that it is.
struct TensorPart {
  HostTensor local;
  Type global;
  Block block;

  // NOLINTNEXTLINE: a whole tensor is a part of itself.
  TensorPart(HostTensor whole) : local(std::move(whole)), global(local.type()) {
    for (int64_t size : global.shape) block.push_back({0, size});
  }
  TensorPart(HostTensor local, Type global, Block block)
      : local(std::move(local)), global(std::move(global)), block(std::move(block)) {}
};

// Whether each element has the same bits, or is NaN in both, which has many.
inline bool SameBits(const HostTensor& a, const HostTensor& b) {
  if (a == b) return true;
  if (a.type() != b.type()) return false;
  return DispatchAny(a.type().dtype, [&](auto zero) {
    using T = decltype(zero);
    using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    for (int64_t i = 0; i < a.type().num_elements(); ++i) {
      const Stored x = a.data<Stored>()[i], y = b.data<Stored>()[i];
      if (std::memcmp(&x, &y, sizeof(x)) != 0 && (x == x || y == y)) return false;
    }
    return true;
  });
}

// Runs the kernel of `row` in pieces: the units [0, cut), [cut, next), … , [last, units). Cuts
// beyond the units are left out. Aborts where the levels of the CPU (base/cpu_dispatch.h) disagree. REQUIRES:
// the row has a kernel.
inline void RunKernel(const OpRow& row, const Attrs& attrs, const std::vector<TensorPart>& operands,
                      std::vector<TensorPart>& results, const std::vector<int64_t>& cuts = {}) {
  const KernelFactory cpu = CpuKernelOf(row);
  MESHWORK_CHECK(cpu != nullptr, "{} has no kernel", row.name);
  KernelSpec spec{.attrs = attrs};
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<Block> in_blocks, out_blocks;
  const std::vector<TensorPart> before = results;
  for (const TensorPart& part : operands) {
    spec.operands.push_back({part.local.type(), part.global});
    in.push_back(part.local.data<char>());
    in_blocks.push_back(part.block);
  }
  for (TensorPart& part : results) {
    spec.results.push_back({part.local.type(), part.global});
    out.push_back(part.local.data<char>());
    out_blocks.push_back(part.block);
  }
  const Kernel kernel = cpu(spec);
  auto run = [&] {
    int64_t begin = 0;
    auto run_to = [&](int64_t end) {
      kernel.run({.in = in,
                  .out = out,
                  .in_blocks = in_blocks,
                  .out_blocks = out_blocks,
                  .begin = begin,
                  .end = end});
      begin = end;
    };
    for (int64_t cut : cuts)
      if (kernel.MayCutAt(cut) && cut >= begin && cut < kernel.units) run_to(cut);
    run_to(kernel.units);
  };
  run();
  const CpuLevel used = UsedCpuLevel();
  for (int level = 0; level < static_cast<int>(used); ++level) {
    UseCpuLevel(static_cast<CpuLevel>(level));
    std::vector<TensorPart> again = before;
    for (size_t i = 0; i < again.size(); ++i) out[i] = again[i].local.data<char>();
    run();
    UseCpuLevel(used);
    for (size_t i = 0; i < again.size(); ++i) {
      MESHWORK_CHECK(SameBits(again[i].local, results[i].local),
                     "{}: result {} on {} differs from that on {}", row.name, i,
                     CpuLevelName(static_cast<CpuLevel>(level)), CpuLevelName(used));
    }
  }
}

// Called after each node; in a body, after each node in each iteration. May change the node's results.
using NodeObserver = std::function<void(const Node& node, const std::vector<HostTensor>& operands,
                                        std::vector<HostTensor>& results)>;

inline void InterpretNodes(const Graph& graph, std::vector<HostTensor>& values, const NodeObserver& observer);

// The results of a body: new carries, then its outputs.
struct InterpretedBody {
  std::vector<HostTensor> carries, outputs;
};

inline InterpretedBody InterpretBody(const Graph& body, const std::vector<HostTensor>& arguments,
                                     const NodeObserver& observer) {
  std::vector<HostTensor> values(body.values().size());
  InterpretedBody result;
  for (size_t a = 0; a < arguments.size(); ++a) {
    values[body.arguments()[a].value] = arguments[a];
    if (body.arguments()[a].is_variable) result.carries.push_back(arguments[a]);
  }
  InterpretNodes(body, values, observer);
  for (const VariableUpdate& update : body.updates()) result.carries[update.argument] = values[update.value];
  for (const OutputInfo& output : body.outputs()) result.outputs.push_back(values[output.value]);
  return result;
}

// x[t] of x.
inline HostTensor SliceOf(const HostTensor& x, int64_t t) {
  const Type type{x.type().dtype, Shape(x.type().shape.begin() + 1, x.type().shape.end())};
  HostTensor slice(type);
  std::memcpy(slice.data<char>(), x.data<char>() + t * type.bytes(), static_cast<size_t>(type.bytes()));
  return slice;
}

inline HostTensor Sum(const HostTensor& a, const HostTensor& b) {
  std::vector<TensorPart> sum = {HostTensor(a.type())};
  RunKernel(GetOp("add"), {}, {a, b}, sum);
  return std::move(sum[0].local);
}

// The same numbers, rounded.
inline HostTensor InDType(const HostTensor& x, DType dtype) {
  return x.type().dtype == dtype ? x : HostTensor({dtype, x.type().shape}, x.Numbers());
}

// Runs iteration by iteration, slice by slice. Sums of bf16 are made in f32 and rounded at the end.
inline std::vector<HostTensor> InterpretScan(const Node& node, const std::vector<HostTensor>& operands,
                                             const NodeObserver& observer) {
  const ControlShape shape = ShapeOfControl(node);
  const Graph& body = *node.regions[0];
  const int64_t length = node.attrs.Get<int64_t>("length");
  std::vector<HostTensor> results(operands.begin(), operands.begin() + shape.carries);
  for (int o = 0; o < shape.stacked + shape.sums; ++o) {
    Type type = body.value(body.outputs()[o].value).type;
    if (o < shape.stacked) type.shape.insert(type.shape.begin(), length);
    else type.dtype = WideDType(type.dtype);
    results.emplace_back(type, std::vector<double>(static_cast<size_t>(type.num_elements())));
  }
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = node.attrs.Get<bool>("reverse") ? length - 1 - i : i;
    std::vector<HostTensor> arguments(results.begin(), results.begin() + shape.carries);
    for (int a = shape.carries; a < static_cast<int>(operands.size()); ++a)
      arguments.push_back(a < shape.carries + shape.slices ? SliceOf(operands[a], t) : operands[a]);
    const InterpretedBody step = InterpretBody(body, arguments, observer);
    std::copy(step.carries.begin(), step.carries.end(), results.begin());
    for (int o = 0; o < shape.stacked + shape.sums; ++o) {
      HostTensor& result = results[shape.carries + o];
      const HostTensor& output = step.outputs[o];
      const int64_t bytes = output.type().bytes();
      if (o >= shape.stacked) result = Sum(result, InDType(output, result.type().dtype));
      else std::memcpy(result.data<char>() + t * bytes, output.data<char>(), static_cast<size_t>(bytes));
    }
  }
  for (int o = shape.stacked; o < shape.stacked + shape.sums; ++o) {
    HostTensor& sum = results[shape.carries + o];
    sum = InDType(sum, body.value(body.outputs()[o].value).type.dtype);
  }
  return results;
}

inline std::vector<HostTensor> InterpretControl(const Node& node, const std::vector<HostTensor>& operands,
                                                const NodeObserver& observer = nullptr) {
  if (node.row->name == "scan") return InterpretScan(node, operands, observer);
  if (node.row->name == "if") {
    const size_t branch = operands[0].Number() != 0 ? 0 : 1;
    return InterpretBody(*node.regions[branch], {operands.begin() + 1, operands.end()}, observer).outputs;
  }
  std::vector<HostTensor> arguments = operands;
  for (;;) {
    const InterpretedBody step = InterpretBody(*node.regions[0], arguments, observer);
    if (step.outputs[0].Number() == 0)
      return {arguments.begin(), arguments.begin() + static_cast<int64_t>(step.carries.size())};
    std::copy(step.carries.begin(), step.carries.end(), arguments.begin());
  }
}

inline std::vector<HostTensor> InterpretNode(const Graph& graph, const Node& node,
                                             const std::vector<HostTensor>& operands,
                                             const NodeObserver& observer) {
  if (IsControl(node)) return InterpretControl(node, operands, observer);
  std::vector<TensorPart> results;
  for (ValueId id : node.results) results.emplace_back(HostTensor(graph.value(id).type));
  RunKernel(*node.row, node.attrs, {operands.begin(), operands.end()}, results);
  std::vector<HostTensor> found;
  for (TensorPart& result : results) found.push_back(std::move(result.local));
  return found;
}

inline void InterpretNodes(const Graph& graph, std::vector<HostTensor>& values,
                           const NodeObserver& observer) {
  for (const Node& node : graph.nodes()) {
    std::vector<HostTensor> operands;
    for (ValueId id : node.operands) operands.push_back(values[id]);
    std::vector<HostTensor> results = InterpretNode(graph, node, operands, observer);
    if (observer) observer(node, operands, results);
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = std::move(results[i]);
  }
}

// The values of all nodes and arguments, by ValueId. The values of arguments are given by name.
inline std::vector<HostTensor> InterpretAll(const Graph& graph, const NumbersByName& feeds,
                                            const NodeObserver& observer = nullptr) {
  std::vector<HostTensor> values(graph.values().size());
  for (const Argument& argument : graph.arguments()) {
    const ValueInfo& info = graph.value(argument.value);
    const auto feed = feeds.find(info.name);
    MESHWORK_CHECK(feed != feeds.end(), "nothing is fed to \"{}\"", info.name);
    values[argument.value] = HostTensor(info.type, feed->second);
  }
  InterpretNodes(graph, values, observer);
  return values;
}

// The result of a step: its outputs, and the value of every variable after it.
struct InterpretedStep {
  std::map<std::string, HostTensor> outputs, variables;
};

// REQUIRES: graph.status() is OK, every argument is fed.
inline InterpretedStep Interpret(const Graph& graph, const NumbersByName& feeds,
                                 const NodeObserver& observer = nullptr) {
  MESHWORK_CHECK(graph.status().ok(), "{}", MessageOf(graph.status()));
  const std::vector<HostTensor> values = InterpretAll(graph, feeds, observer);
  InterpretedStep step;
  for (const OutputInfo& output : graph.outputs()) step.outputs[output.name] = values[output.value];
  for (const Argument& argument : graph.arguments())
    if (argument.is_variable) step.variables[graph.value(argument.value).name] = values[argument.value];
  for (const VariableUpdate& update : graph.updates())
    step.variables[graph.argument_name(update.argument)] = values[update.value];
  return step;
}

}  // namespace meshwork
