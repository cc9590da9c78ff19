#include "meshwork/runtime/plan/loop.h"

#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "meshwork/base/status.h"
#include "meshwork/ir/builder.h"
#include "meshwork/ir/kernel.h"
#include "meshwork/ir/regions.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"

namespace meshwork {
namespace {

// ---- Slices: x[t] of x, and y with y[t] replaced. Elements lie behind each other along the dim of t.

Kernel SliceCpu(const KernelSpec& spec) {
  const int64_t n = spec.results[0].local.num_elements(), size = DTypeSize(spec.results[0].local.dtype);
  return {.run =
              [n, size](const KernelArgs& args) {
                const std::byte* from = args.In<std::byte>(0) + *args.In<int64_t>(1) * n * size;
                std::memcpy(args.Out<std::byte>(0) + args.begin * size, from + args.begin * size,
                            static_cast<size_t>((args.end - args.begin) * size));
              },
          .units = n,
          .by_rows = true,
          .parts = {1, 1}};
}

Kernel StoreCpu(const KernelSpec& spec) {
  const int64_t n = spec.operands[1].local.num_elements(), size = DTypeSize(spec.results[0].local.dtype);
  const int64_t length = spec.results[0].local.shape[0];
  return {.run =
              [n, size, length](const KernelArgs& args) {
                const std::byte *old = args.In<std::byte>(0), *slice = args.In<std::byte>(1);
                std::byte* to = args.Out<std::byte>(0);
                const int64_t at = *args.In<int64_t>(2), begin = args.begin * size;
                const auto bytes = static_cast<size_t>((args.end - args.begin) * size);
                for (int64_t t = 0; t < length; ++t) {
                  const std::byte* from = t == at ? slice : old + t * n * size;
                  if (t == at || to != old) std::memcpy(to + t * n * size + begin, from + begin, bytes);
                }
              },
          .units = n};
}

const OpRow& SliceRow() {
  static const OpRow row = {.name = "loop_slice",
                            .doc = "x[t], of which a device has all along dim 0",
                            .num_operands = 2,
                            .kind = OpKind::kLocal,
                            .cpu = SliceCpu};
  return row;
}

const OpRow& StoreRow() {
  static const OpRow row = {.name = "loop_store",
                            .doc = "y with x in the place of y[t]",
                            .num_operands = 3,
                            .kind = OpKind::kLocal,
                            .cpu = StoreCpu,
                            .in_place = {0}};
  return row;
}

// ---- Nodes.

// Adds a node with one result, which is laid out as `info` says and has no name.
ValueId AddOneResult(Graph& graph, const OpRow& row, std::initializer_list<ValueId> operands,
                     const Attrs& attrs, ValueInfo info) {
  Node node{.row = &row, .attrs = Graph::CompleteAttrs(row, attrs).value(), .location = info.location};
  node.operands.assign(operands.begin(), operands.end());
  info.name.clear();
  info.gather = Gathering::kWithinBudget;
  return graph.nodes()[graph.AddNode(std::move(node), {std::move(info)})].results[0];
}

ValueId AddConstant(Graph& graph, double value, ValueInfo info) {
  const Attrs attrs = {{"value", value}, {"dtype", info.type.dtype}, {"shape", ToInts(info.type.shape)}};
  return AddOneResult(graph, GetOp("constant"), {}, attrs, std::move(info));
}

// The value cast to the dtype of `info`; the other fields of `info` describe the value, too.
ValueId InDTypeOf(Graph& graph, ValueId id, const ValueInfo& info) {
  if (graph.value(id).type.dtype == info.type.dtype) return id;
  return AddOneResult(graph, GetOp("cast"), {id}, {{"dtype", info.type.dtype}}, info);
}

// ---- Bodies.

// Writes a body as a program whose variables are the results of its node.
class BodyWriter {
 public:
  BodyWriter(const Graph& body) : body_(body), to_(body.mesh()), map_(body.values().size(), kNoValue) {
    to_.name = body.name;
  }

  ValueId AddArgument(ValueInfo info, bool is_variable) {
    info.name.clear();  // those around it may be called so, too
    info.name = fmt::format("{}{}", is_variable ? "r" : "o", to_.arguments().size());
    return to_.AddArgument(std::move(info), is_variable);
  }
  void Set(ValueId argument, ValueId to) { map_[argument] = to; }
  ValueId Map(ValueId id) const { return map_[id]; }

  void WriteNodes() {
    for (const Node& node : body_.nodes()) CopyNode(body_, node, to_, map_);
  }

  ValueId Add(const OpRow& row, std::initializer_list<ValueId> operands, const Attrs& attrs, ValueInfo info) {
    return AddOneResult(to_, row, operands, attrs, std::move(info));
  }

  ValueId InDTypeOf(ValueId id, const ValueInfo& info) { return meshwork::InDTypeOf(to_, id, info); }
  void Update(size_t argument, ValueId value) { to_.AddUpdate({static_cast<int>(argument), value}); }
  // The value that an update (kNoValue: there is none), or an output, of the old body has become.
  ValueId Next(int carry) const {
    for (const VariableUpdate& update : body_.updates())
      if (update.argument == carry) return map_[update.value];
    return kNoValue;
  }
  ValueId Output(size_t o) const { return map_[body_.outputs()[o].value]; }
  std::shared_ptr<const Graph> Finish() { return std::make_shared<const Graph>(std::move(to_)); }

 private:
  const Graph& body_;
  Graph to_;
  std::vector<ValueId> map_;
};

ValueInfo ScalarInfo(const Mesh& mesh, DType dtype, const SourceLocation& location) {
  return {.type = {dtype, {}},
          .global = {dtype, {}},
          .layout = Layout::Replicated(mesh, 0),
          .location = location};
}

// Rewrites the nodes of one program; the regions that they have are done already.
class Lowerer {
 public:
  explicit Lowerer(const Graph& from) : from_(from), rewriter_(from) {}

  Graph Run() && {
    for (const Node& node : from_.nodes()) {
      if (node.row->name == "keep_first") WriteKeepFirst(node);
      else if (!IsControl(node)) rewriter_.Copy(node);
      else if (node.row->control == ControlKind::kScan) WriteScan(node);
      else if (node.row->control == ControlKind::kWhile) WriteWhile(node);
      else if (IsManual(node)) WriteOpenly(node);
      else WriteIf(node);
    }
    return std::move(rewriter_).Finish();
  }

 private:
  std::vector<ValueInfo> InfosOf(std::span<const ValueId> values) const {
    std::vector<ValueInfo> infos;
    for (ValueId id : values) infos.push_back(from_.value(id));
    return infos;
  }

  // Adds the node, whose results are `infos`. The last of these are the results of `old`, but sums have the dtype in
  // which they are made.
  void Add(Node node, const Node& old, std::vector<ValueInfo> infos, std::vector<int64_t> initial,
           int64_t first) {
    node.attrs.Set("initial", std::move(initial));
    node.attrs.Set("first_read", first);
    const size_t added = infos.size() - old.results.size();
    Graph& to = rewriter_.to();
    const int index = to.AddNode(std::move(node), std::move(infos));
    for (size_t r = 0; r < old.results.size(); ++r)
      rewriter_.Set(old.results[r],
                    InDTypeOf(to, to.nodes()[index].results[added + r], from_.value(old.results[r])));
  }

  ValueId AddNode(const OpRow& row, std::initializer_list<ValueId> operands, const Attrs& attrs,
                  ValueInfo info) {
    return AddOneResult(rewriter_.to(), row, operands, attrs, std::move(info));
  }

  // The device's element of 0, 1, 2, … along the axes says which device is the first.
  void WriteKeepFirst(const Node& node) {
    const AxisList& axes = node.attrs.Get<AxisList>("axes");
    const Mesh& mesh = from_.mesh();
    const ValueInfo& info = from_.value(node.results[0]);
    const ValueInfo numbers{.type = {I64, {1}},
                            .global = {I64, {mesh.GroupSize(axes)}},
                            .layout = Layout(mesh, {axes}),
                            .location = node.location};
    ValueInfo own = ScalarInfo(mesh, I64, node.location);
    own.layout = own.layout->WithPartials(info.layout->partials());
    ValueInfo is_first = ScalarInfo(mesh, BOOL, node.location);
    PartialSet any;
    for (int axis : AxisSet(axes).ToList()) any.push_back({axis, ReduceOp::kOr});
    is_first.layout = is_first.layout->WithPartials(any);
    const ValueInfo scalar = ScalarInfo(mesh, info.type.dtype, node.location);
    const ValueId index =
        AddNode(GetOp("iota"), {}, {{"dim", int64_t{0}}, {"dtype", I64}, {"shape", std::vector<int64_t>{1}}},
                numbers);
    const ValueId mine = AddNode(GetOp("reshape"), {index}, {{"shape", std::vector<int64_t>{}}}, own);
    const ValueId zero = AddConstant(rewriter_.to(), 0, ScalarInfo(mesh, I64, node.location));
    const ValueId first = AddNode(GetOp("equal"), {mine, zero}, {}, is_first);
    const ValueId nothing = AddConstant(rewriter_.to(), -0.0, scalar);
    rewriter_.Set(node.results[0],
                  AddNode(GetOp("select"), {first, rewriter_.Map(node.operands[0]), nothing}, {}, info));
  }

  void WriteScan(const Node& node) {
    const ControlShape shape = ShapeOfControl(node);
    const Graph& body = *node.regions[0];
    const int64_t length = node.attrs.Get<int64_t>("length");
    const bool reverse = node.attrs.Get<bool>("reverse");
    const ValueInfo counter = ScalarInfo(from_.mesh(), I64, node.location);
    Graph& to = rewriter_.to();
    Node lowered{.row = node.row, .attrs = node.attrs, .location = node.location, .cause = node.cause};
    std::vector<int64_t> initial = {0};
    lowered.operands.push_back(AddConstant(to, reverse ? static_cast<double>(length - 1) : 0, counter));
    for (int c = 0; c < shape.carries; ++c) {
      lowered.operands.push_back(rewriter_.Map(node.operands[c]));
      initial.push_back(c + 1);
    }
    initial.resize(initial.size() + shape.stacked, -1);
    const size_t first_sum = node.results.size() - static_cast<size_t>(shape.sums);
    std::vector<ValueInfo> infos = InfosOf(node.results);  // while the loop runs
    for (size_t r = first_sum; r < infos.size(); ++r) {
      infos[r].type.dtype = infos[r].global.dtype = WideDType(infos[r].type.dtype);
      initial.push_back(static_cast<int64_t>(lowered.operands.size()));
      lowered.operands.push_back(AddConstant(to, 0, infos[r]));
    }
    const auto first = static_cast<int64_t>(lowered.operands.size());
    for (size_t o = shape.carries; o < node.operands.size(); ++o)
      lowered.operands.push_back(rewriter_.Map(node.operands[o]));

    BodyWriter writer(body);
    const ValueId t = writer.AddArgument(counter, true);
    std::vector<ValueId> results;
    for (const ValueInfo& info : infos) results.push_back(writer.AddArgument(info, true));
    for (int c = 0; c < shape.carries; ++c) writer.Set(body.arguments()[c].value, results[c]);
    std::vector<std::pair<ValueId, ValueId>> slices;  // argument of the body, the whole tensor
    for (size_t a = shape.carries; a < body.arguments().size(); ++a) {
      const ValueId id = writer.AddArgument(from_.value(node.operands[a]), false);
      if (static_cast<int>(a) < shape.carries + shape.slices)
        slices.emplace_back(body.arguments()[a].value, id);
      else writer.Set(body.arguments()[a].value, id);
    }
    for (const auto& [slice, all] : slices)
      writer.Set(slice, writer.Add(SliceRow(), {all, t}, {}, body.value(slice)));
    writer.WriteNodes();
    for (int c = 0; c < shape.carries; ++c)
      if (const ValueId next = writer.Next(c); next != kNoValue) writer.Update(1 + c, next);
    for (int o = 0; o < shape.stacked + shape.sums; ++o) {
      const int r = shape.carries + o;
      const bool is_stack = o < shape.stacked;
      const ValueId got = is_stack ? writer.Output(o) : writer.InDTypeOf(writer.Output(o), infos[r]);
      writer.Update(1 + r, is_stack ? writer.Add(StoreRow(), {results[r], got, t}, {}, infos[r])
                                    : writer.Add(GetOp("add"), {results[r], got}, {}, infos[r]));
    }
    const ValueId step = writer.Add(
        GetOp("constant"), {},
        {{"value", reverse ? -1.0 : 1.0}, {"dtype", I64}, {"shape", std::vector<int64_t>{}}}, counter);
    writer.Update(0, writer.Add(GetOp("add"), {t, step}, {}, counter));
    lowered.regions = {writer.Finish()};
    infos.insert(infos.begin(), counter);
    Add(std::move(lowered), node, std::move(infos), std::move(initial), first);
  }

  void WriteWhile(const Node& node) {
    const ControlShape shape = ShapeOfControl(node);
    const Graph& body = *node.regions[0];
    const ValueInfo go = ScalarInfo(from_.mesh(), BOOL, node.location);
    Node lowered{.row = node.row, .attrs = node.attrs, .location = node.location, .cause = node.cause};
    std::vector<int64_t> initial = {-1};
    for (int c = 0; c < shape.carries; ++c) initial.push_back(c);
    for (ValueId id : node.operands) lowered.operands.push_back(rewriter_.Map(id));
    for (const bool is_condition : {true, false}) {
      BodyWriter writer(body);
      writer.AddArgument(go, true);
      for (int c = 0; c < shape.carries; ++c)
        writer.Set(body.arguments()[c].value, writer.AddArgument(from_.value(node.results[c]), true));
      for (size_t a = shape.carries; a < body.arguments().size(); ++a)
        writer.Set(body.arguments()[a].value, writer.AddArgument(from_.value(node.operands[a]), false));
      writer.WriteNodes();
      if (is_condition) writer.Update(0, writer.Output(0));
      for (int c = 0; c < shape.carries && !is_condition; ++c)
        if (const ValueId next = writer.Next(c); next != kNoValue) writer.Update(1 + c, next);
      lowered.regions.push_back(WithoutDeadCode(*writer.Finish()));
    }
    std::vector<ValueInfo> infos = InfosOf(node.results);
    infos.insert(infos.begin(), go);
    Add(std::move(lowered), node, std::move(infos), std::move(initial), shape.carries);
  }

  // Writes a body that runs once among the other nodes.
  void WriteOpenly(const Node& node) {
    const Graph& body = *node.regions[0];
    Graph& to = rewriter_.to();
    std::vector<ValueId> map(body.values().size(), kNoValue);
    for (size_t a = 0; a < body.arguments().size(); ++a)
      map[body.arguments()[a].value] = rewriter_.Map(node.operands[a]);
    for (const Node& inner : body.nodes()) CopyNode(body, inner, to, map);
    for (size_t o = 0; o < node.results.size(); ++o)
      rewriter_.Set(node.results[o], map[body.outputs()[o].value]);
  }

  void WriteIf(const Node& node) {
    Node lowered{.row = node.row, .attrs = node.attrs, .location = node.location, .cause = node.cause};
    for (ValueId id : node.operands) lowered.operands.push_back(rewriter_.Map(id));
    for (const auto& body : node.regions) {
      BodyWriter writer(*body);
      for (ValueId id : node.results) writer.AddArgument(from_.value(id), true);
      for (size_t a = 0; a < body->arguments().size(); ++a)
        writer.Set(body->arguments()[a].value, writer.AddArgument(from_.value(node.operands[a + 1]), false));
      writer.WriteNodes();
      for (size_t o = 0; o < node.results.size(); ++o) writer.Update(o, writer.Output(o));
      lowered.regions.push_back(writer.Finish());
    }
    Add(std::move(lowered), node, InfosOf(node.results), std::vector<int64_t>(node.results.size(), -1), 1);
  }

  // Nodes that only the condition needs are dropped from the body, and the other way round.
  static std::shared_ptr<const Graph> WithoutDeadCode(const Graph& graph) {
    std::vector<bool> live(graph.values().size(), false);
    for (const VariableUpdate& update : graph.updates()) live[update.value] = true;
    std::vector<bool> nodes(graph.nodes().size(), false);
    for (size_t n = nodes.size(); n-- > 0;) {
      for (ValueId id : graph.nodes()[n].results) nodes[n] = nodes[n] || live[id];
      if (nodes[n])
        for (ValueId id : graph.nodes()[n].operands) live[id] = true;
    }
    Rewriter rewriter(graph);
    for (size_t n = 0; n < nodes.size(); ++n)
      if (nodes[n]) rewriter.Copy(graph.nodes()[n]);
    return std::make_shared<const Graph>(std::move(rewriter).Finish());
  }

  const Graph& from_;
  Rewriter rewriter_;
};

}  // namespace

Graph LowerLoops(const Graph& local) {
  return WithRegions(local, [](const Graph& graph) { return Lowerer(graph).Run(); });
}

LoweredLoop LoweredLoopOf(const Node& node) {
  return {node.attrs.Get<std::vector<int64_t>>("initial"),
          static_cast<int>(node.attrs.Get<int64_t>("first_read"))};
}

}  // namespace meshwork
