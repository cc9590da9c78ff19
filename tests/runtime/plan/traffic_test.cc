// The predicted traffic of collectives is what the runtime's plans move, counted copy by copy, for every pair of
// layouts (ops that move by layouts alone) and for random exchanges between random layouts.
#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "meshwork/ir/exchange.h"
#include "meshwork/ir/local.h"
#include "meshwork/ir/program_cost.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/plan/collective.h"

namespace meshwork::traffic_test {
namespace {

ValueInfo InfoOf(const Shape& global, const Layout& layout) {
  return {.type = {F32, layout.LocalShape(global)}, .global = {F32, global}, .layout = layout};
}

struct Sent {
  std::vector<int64_t> sent, received;  // bytes, by device
  Traffic Most() const {
    return {*std::max_element(sent.begin(), sent.end()), *std::max_element(received.begin(), received.end())};
  }
};

// The bytes that each device sends and receives if each device has its own memory.
Sent CountCopies(const Graph& local, const Node& node, int index) {
  const int64_t devices = local.mesh().num_devices();
  std::vector<ValueBuffers> buffers;
  for (size_t v = 0; v < local.values().size(); ++v)
    buffers.push_back({InstanceMap(local.mesh(), AllAxes(local.mesh())), static_cast<BufferId>(v * devices)});
  std::vector<int64_t> device_of(local.values().size() * devices);
  for (const ValueBuffers& value : buffers)
    for (int64_t device = 0; device < devices; ++device) device_of[value.Of(device)] = device;
  Sent counted{std::vector<int64_t>(devices), std::vector<int64_t>(devices)};
  const std::vector<Transfer> transfers = PlanCollective(local, index, 0, buffers).value();
  for (const Transfer& transfer : transfers) {
    if (transfer.from.empty()) continue;
    EXPECT_EQ(transfer.from.size(), 1u) << node.row->name << " only moves";
    const int64_t from = device_of[transfer.from[0]], to = device_of[transfer.to];
    if (from == to) continue;
    counted.sent[from] += transfer.box.elements() * DTypeSize(F32);
    counted.received[to] += transfer.box.elements() * DTypeSize(F32);
  }
  return counted;
}

// Adds node `op` from values of types `from` to one of type `to`, and compares the traffic.
Traffic ExpectTrafficIsCopied(std::string_view op, const std::vector<ValueInfo>& from, const ValueInfo& to,
                              Attrs attrs = {}) {
  Graph graph(to.layout->mesh());
  Node node{.row = &GetOp(op), .attrs = std::move(attrs)};
  for (const ValueInfo& info : from) {
    ValueInfo named = info;
    named.name = fmt::format("x{}", node.operands.size());
    node.operands.push_back(graph.AddArgument(std::move(named), false));
  }
  const int index = graph.AddNode(node, {to});
  const Traffic counted = CountCopies(graph, graph.nodes()[index], index).Most();
  const Traffic said = WireTraffic(graph, graph.nodes()[index]);
  EXPECT_EQ(said.sent, counted.sent) << PrintGraph(graph);
  EXPECT_EQ(said.received, counted.received) << PrintGraph(graph);
  EXPECT_EQ(WireBytes(graph, graph.nodes()[index]), std::max(counted.sent, counted.received));
  return said;
}

bool IsEven(const Layout& layout, const Shape& shape) {
  for (int d = 0; d < layout.rank(); ++d)
    if (layout.IsPadded(shape, d)) return false;
  return true;
}

TEST(TrafficTest, OfAllToAllVIsWhatIsCopied) {
  int64_t busier_senders = 0;
  for (const char* text : {"x=4", "x=2,y=3", "x=4,y=2", "x=2*2,y=2"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    const std::vector<Layout> layouts = AllWholeLayouts(mesh, 2);
    for (const Shape& shape : {Shape{12, 12}, Shape{7, 5}})
      for (const Layout& from : layouts)
        for (const Layout& to : layouts) {
          if (from == to) continue;
          const Traffic traffic =
              ExpectTrafficIsCopied("all_to_all_v", {InfoOf(shape, from)}, InfoOf(shape, to));
          busier_senders += traffic.sent > traffic.received ? 1 : 0;
          if (HasFailure()) return;
        }
  }
  EXPECT_GT(busier_senders, 10);
}

// Each replica sends to one device: a permute sends and receives one block on every device that needs another block.
TEST(TrafficTest, OfPermutesIsOneBlock) {
  int64_t replicated = 0;
  for (const char* text : {"x=4", "x=2,y=2", "x=4,y=4", "x=4,y=2,z=2", "x=2*2,y=4", "x=3,y=3"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    const Shape shape = text == std::string_view("x=3,y=3") ? Shape{9, 9} : Shape{16, 16};
    std::vector<Layout> layouts;
    for (const Layout& whole : AllWholeLayouts(mesh, 2))
      for (const Layout& layout : WithAllPartials(whole, {ReduceOp::kSum})) layouts.push_back(layout);
    for (const Layout& from : layouts)
      for (const Layout& to : layouts) {
        if (from == to || from.partials() != to.partials() || from.NumShards(0) != to.NumShards(0) ||
            from.NumShards(1) != to.NumShards(1) || !IsEven(from, shape))
          continue;
        ExpectTrafficIsCopied("collective_permute", {InfoOf(shape, from)}, InfoOf(shape, to));
        replicated += from.ShardedAxes() == to.ShardedAxes() ? 0 : 1;
        if (HasFailure()) return;
      }
  }
  EXPECT_GT(replicated, 10);
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  int64_t From(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <typename T>
  const T& Of(const std::vector<T>& all) {
    return all[static_cast<size_t>(From(0, std::ssize(all) - 1))];
  }

 private:
  std::mt19937 random_;
};

ExchangeDim DrawDim(Draws& draws, int64_t from_size) {
  ExchangeDim dim{.offsets = {draws.From(-5, 5)}};
  if (draws.From(0, 2) == 0) return dim;
  if (draws.From(0, 1) == 0) {
    dim.size = draws.From(0, from_size + 3);
    dim.extent = draws.From(1, 7);
  }
  dim.stride = draws.From(1, 3) * (dim.is_windows() || draws.From(0, 1) == 0 ? 1 : -1);
  if (dim.stride < 0) dim.offsets[0] += from_size;
  dim.spacing = draws.From(1, 3);
  return dim;
}

TEST(TrafficTest, OfExchangesIsWhatIsCopied) {
  Draws draws(7);
  int64_t tried = 0, busier_senders = 0, joins = 0, windows = 0;
  for (const char* text : {"x=8", "x=2,y=3", "x=4,y=2", "x=2*2,y=2"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    const std::vector<Layout> layouts = AllWholeLayouts(mesh, 2);
    for (int64_t i = 0; i < (LongTests() ? 10000 : 1000); ++i) {
      const Shape shape = {draws.From(1, 17), draws.From(1, 9)};
      const Layout &from = draws.Of(layouts), &to = draws.Of(layouts);
      Exchange exchange;
      Shape result;
      for (int d = 0; d < 2; ++d) {
        const ExchangeDim dim = exchange.dims.emplace_back(DrawDim(draws, shape[static_cast<size_t>(d)]));
        const int64_t block = BlockSize(mesh, to.dim(d), dim.size);
        result.push_back(dim.is_windows()
                             ? to.NumShards(d) * WindowSize({dim.stride, 0, dim.extent, dim.spacing}, block)
                             : draws.From(0, 20));
        windows += dim.is_windows() ? 1 : 0;
      }
      std::vector<ValueInfo> operands = {InfoOf(shape, from)};
      ExchangeDim& joined = exchange.dims[0];
      if (joined.stride == 1 && joined.spacing == 1 && !joined.is_windows() && draws.From(0, 1) == 0) {
        operands.push_back(InfoOf(shape, draws.Of(layouts)));
        for (ExchangeDim& dim : exchange.dims) dim.offsets.push_back(dim.offsets[0]);
        joined.offsets[1] -= shape[0];
        ++joins;
      }
      const Traffic traffic =
          ExpectTrafficIsCopied("exchange", operands, InfoOf(result, to), exchange.ToAttrs());
      if (HasFailure()) return;
      ++tried;
      busier_senders += traffic.sent > traffic.received ? 1 : 0;
    }
  }
  EXPECT_GE(tried, 4000);
  EXPECT_GT(busier_senders, 500);
  EXPECT_GT(joins, 100);
  EXPECT_GT(windows, 100);
}

// On axes of more devices than are counted one by one, the device that sends is among the counted ones.
TEST(TrafficTest, OfExchangesAlongLongAxesIsThatOfTheBusiest) {
  const Mesh mesh = Mesh::Parse("x=40").value();
  const Layout rows = Layout::Parse(mesh, "{x}").value();
  const auto traffic = [&](int64_t size, ExchangeDim dim, int64_t result) {
    Exchange exchange;
    exchange.dims.push_back(std::move(dim));
    return ExpectTrafficIsCopied("exchange", {InfoOf({size}, rows)}, InfoOf({result}, rows),
                                 exchange.ToAttrs());
  };
  for (int64_t start : {0, 1, 37, 100, 111, 150, 156})  // x[start:start+4] of 160: one or two devices have it
    EXPECT_GT(traffic(160, {.offsets = {start}}, 4).sent, 0);
  traffic(160, {.offsets = {1}}, 160);                                  // a shift
  traffic(160, {.offsets = {-1}, .size = 160, .extent = 3}, 240);       // a halo
  traffic(160, {.offsets = {-9}, .size = 160, .extent = 19}, 40 * 22);  // one of several blocks
  traffic(157, {.offsets = {-1}, .size = 157, .extent = 3}, 240);       // uneven
  traffic(160, {.stride = -1, .offsets = {159}}, 160);                  // reversed
  traffic(160, {.stride = 2, .spacing = 1, .offsets = {-1}, .size = 80, .extent = 3}, 40 * 5);
  // A mesh with too many devices to list.
  const Mesh large = Mesh::Parse("x=1048576,y=1048576").value();
  Graph graph(large);
  const Layout long_rows = Layout::Parse(large, "{x,_}").value();
  const ValueId x = graph.AddArgument(InfoOf({1 << 22, 8}, long_rows), false);
  Exchange slice{.dims = {{.offsets = {1 << 21}}, {.offsets = {0}}}};
  Node node{.row = &GetOp("exchange"), .attrs = slice.ToAttrs()};
  node.operands = {x};
  const int index = graph.AddNode(node, {InfoOf({4, 8}, long_rows)});
  EXPECT_EQ(WireTraffic(graph, graph.nodes()[index]), (Traffic{.sent = 4 * 8 * 4, .received = 8 * 4}));
}

}  // namespace
}  // namespace meshwork::traffic_test
