// Moves of elements that mean the same and are written differently: compiled, proven and run, bit by bit
// beside one device; and random programs of such moves (support/moves_drawer.h). MESHWORK_LONG_TESTS=1 tries
// many more.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/row.h"
#include "meshwork/ir/text.h"
#include "meshwork/runtime/cpu/cpu_backend.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/verify/verify.h"
#include "support/long_tests.h"
#include "support/program_trial.h"
#include "support/random_program.h"

namespace meshwork::moves_test {
namespace {

// Of %x: f32[8,4], %o: f32[1,4], %p: f32[2,4], %e: f32[0,4], %i: f32[2,9,3]; the result is %y.
struct Twins {
  std::string_view name, a, b;
};
constexpr Twins kTwins[] = {
    {"slice_limit", "%y = slice %x start=[0,0] limit=[8,4] stride=[2,1]",
     "%y = slice %x start=[0,0] limit=[7,4] stride=[2,1]"},
    {"slice_limit_3", "%y = slice %x start=[1,0] limit=[8,4] stride=[3,2]",
     "%y = slice %x start=[1,0] limit=[8,3] stride=[3,2]"},
    {"slice_stride_of_one", "%y = slice %x start=[3,0] limit=[4,4]",
     "%y = slice %x start=[3,0] limit=[8,4] stride=[9,1]"},
    {"slice_stride_2_60", "%y = slice %x start=[3,0] limit=[4,4] stride=[1152921504606846976,1]",
     "%y = slice %x start=[3,0] limit=[8,4] stride=[9223372036854775807,1]"},
    {"slice_nothing", "%y = slice %x start=[3,0] limit=[3,4]", "%y = slice %x start=[0,0] limit=[0,4]"},
    {"slice_all", "%y = slice %x start=[0,0] limit=[8,4]",
     "%y = slice %x start=[0,0] limit=[8,4] stride=[1,1]"},
    {"slice_and_crop", "%y = slice %x start=[1,0] limit=[7,4]", "%y = pad %x low=[-1,0] high=[-1,0]"},
    {"crops_of_two_values", "%y = pad %x low=[-1,0] high=[-1,0] value=nan",
     "%y = pad %x low=[-1,0] high=[-1,0] value=-0"},
    {"slice_of_slice",
     "%s = slice %x start=[1,0] limit=[8,4] %y = slice %s start=[1,0] limit=[6,4] stride=[2,1]",
     "%y = slice %x start=[2,0] limit=[7,4] stride=[2,1]"},
    {"roll_turn", "%y = roll %x shift=1 dim=0", "%y = roll %x shift=-7 dim=0"},
    {"roll_turns", "%y = roll %x shift=19 dim=0", "%y = roll %x shift=3 dim=0"},
    {"roll_nothing", "%y = roll %x shift=0 dim=0", "%y = roll %x shift=-16 dim=0"},
    {"roll_2", "%y = roll %p shift=1 dim=0", "%y = roll %p shift=-1 dim=0"},
    {"roll_2_and_reverse", "%y = roll %p shift=1 dim=0", "%y = reverse %p dims=[0]"},
    {"roll_of_roll", "%r = roll %x shift=5 dim=0 %y = roll %r shift=-2 dim=0", "%y = roll %x shift=3 dim=0"},
    {"roll_and_concat", "%y = roll %x shift=3 dim=0",
     "%l = slice %x start=[5,0] limit=[8,4] %h = slice %x start=[0,0] limit=[5,4] %y = concat %l, %h dim=0"},
    {"reverse_order", "%y = reverse %x dims=[0,1]", "%y = reverse %x dims=[1,0]"},
    {"reverse_ones", "%y = reverse %o dims=[0]", "%y = reverse %o dims=[]"},
    {"reverse_twice", "%r = reverse %x dims=[0] %y = reverse %r dims=[0]",
     "%y = pad %x low=[0,0] high=[0,0]"},
    {"pad_interior_of_one", "%y = pad %o low=[1,0] high=[2,0] interior=[7,0]",
     "%y = pad %o low=[1,0] high=[2,0]"},
    {"pad_nan", "%y = pad %x low=[1,0] high=[1,0] value=nan",
     "%y = pad %x low=[1,0] high=[1,0] interior=[0,0] value=nan"},
    {"pad_minus_zero", "%y = pad %x low=[1,0] high=[1,0] value=-0",
     "%y = pad %x low=[1,0] high=[1,0] interior=[0,0] value=-0"},
    {"pad_infinity", "%y = pad %x low=[1,1] high=[1,0] value=-inf",
     "%p1 = pad %x low=[1,0] high=[0,0] value=-inf %y = pad %p1 low=[0,1] high=[1,0] value=-inf"},
    {"pad_alone", "%y = pad %x low=[3,0] high=[-8,0] value=5", "%y = pad %x low=[-8,0] high=[3,0] value=5"},
    {"pad_of_pad", "%p1 = pad %x low=[1,0] high=[0,0] value=2 %y = pad %p1 low=[1,0] high=[1,0] value=2",
     "%y = pad %x low=[2,0] high=[1,0] value=2"},
    {"pad_and_crop", "%p1 = pad %x low=[2,0] high=[1,0] %y = pad %p1 low=[-2,0] high=[-1,0]",
     "%y = roll %x shift=8 dim=0"},
    {"concat_empty", "%y = concat %e, %x dim=0", "%y = concat %x, %e dim=0"},
    {"concat_empties", "%y = concat %e, %x, %e, %p dim=0", "%y = concat %x, %p dim=0"},
    {"concat_of_one", "%y = concat %x dim=0", "%y = reverse %x dims=[]"},
    {"concat_alone", "%y = concat %e, %e dim=0", "%y = roll %e shift=3 dim=0"},
    {"transpose_ones", "%y = transpose %o permutation=[1,0]", "%y = reshape %o shape=[4,1]"},
    {"expand", "%y = expand_dims %x dims=[0]", "%y = reshape %x shape=[1,8,4]"},
    {"expand_and_broadcast", "%y = expand_dims %x dims=[1]", "%y = broadcast_to %x shape=[8,1,4] dims=[0,2]"},
    {"squeeze", "%s = slice %x start=[5,0] limit=[6,4] %y = squeeze %s dims=[0]",
     "%s = pad %x low=[-5,0] high=[-2,0] %y = reshape %s shape=[4]"},
    {"max_pool_beyond", "%y, %at = max_pool %i window=[2] strides=[3] low=[0] high=[0]",
     "%y, %at = max_pool %i window=[2] strides=[3] low=[0] high=[1]"},
    {"sum_pool_beyond", "%y = sum_pool %i window=[3] strides=[3] low=[1] high=[0]",
     "%y = sum_pool %i window=[3] strides=[3] low=[1] high=[1]"},
};

// Pairs of programs on one mesh that look alike and mean different moves.
constexpr Twins kOthers[] = {
    {"zero", "%y = pad %x low=[1,0] high=[1,0]", "%y = pad %x low=[1,0] high=[1,0] value=-0"},
    {"nan", "%y = pad %x low=[1,0] high=[1,0] value=nan", "%y = pad %x low=[1,0] high=[1,0] value=0"},
    {"infinity", "%y = pad %x low=[1,0] high=[1,0] value=inf", "%y = pad %x low=[1,0] high=[1,0] value=-inf"},
    {"slice", "%y = slice %x start=[0,0] limit=[7,4] stride=[2,1]",
     "%y = slice %x start=[1,0] limit=[8,4] stride=[2,1]"},
    {"roll", "%y = roll %x shift=1 dim=0", "%y = roll %x shift=-1 dim=0"},
    {"roll_to_half", "%y = roll %x shift=4 dim=0", "%y = roll %x shift=0 dim=0"},
    {"reverse", "%y = reverse %x dims=[0]", "%y = reverse %x dims=[1]"},
    {"concat", "%y = concat %x, %p dim=0", "%y = concat %p, %x dim=0"},
    {"pad", "%y = pad %x low=[2,0] high=[0,0]", "%y = pad %x low=[1,0] high=[1,0]"},
};

struct Place {
  std::string_view mesh, layout, image;
};
constexpr Place kPlaces[] = {{"x=2", "{x,_}", "{_,x,_}"},
                             {"x=3", "{x,_}", "{_,x,_}"},
                             {"x=2,y=2", "{x,y}", "{y,x,_}"},
                             {"x=4,y=2", "{(y,x),_}", "{_,(x,y),_}"}};

std::string Renamed(std::string_view nodes, char suffix) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    text += nodes[i];
    const bool starts = nodes[i] == '%';
    if (!starts) continue;
    std::string word;
    while (i + 1 < nodes.size() && (std::isalnum(nodes[i + 1]) != 0)) word += nodes[++i];
    text += word;
    constexpr std::string_view kArguments[] = {"x", "o", "p", "e", "i"};
    if (std::find(std::begin(kArguments), std::end(kArguments), word) == std::end(kArguments)) text += suffix;
  }
  return text;
}

Graph ProgramOf(const Place& place, const std::string& nodes) {
  const std::string text = fmt::format(
      "mesh [{0}] func f(%x: f32[8,4] {1}, %o: f32[1,4] {1}, %p: f32[2,4] {1}, %e: f32[0,4] {1}, %i: "
      "f32[2,9,3] "
      "{2}) {{ {3} }}",
      place.mesh, place.layout, place.image, nodes);
  absl::StatusOr<Graph> graph = ParseGraph(text);
  MESHWORK_CHECK(graph.ok() && graph->status().ok(), "{}\n{}", MessageOf(graph.status()), text);
  return *std::move(graph);
}

// Feeds of numbers that are all different, with some infinities and NaN.
RandomProgram Fed(Graph graph) {
  RandomProgram random{std::move(graph), {}};
  double next = 1;
  for (const Argument& argument : random.graph.arguments()) {
    const ValueInfo& info = random.graph.value(argument.value);
    std::vector<double>& numbers = random.feeds[info.name];
    for (int64_t i = 0; i < info.type.num_elements(); ++i) numbers.push_back(next++);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (numbers.size() <= 3) continue;
    numbers[0] = -0.0;
    numbers[2] = -kInfinity;
    if (numbers.size() > 9) numbers[9] = std::numeric_limits<double>::quiet_NaN();
  }
  return random;
}

std::string Tried(RandomProgram random, CpuBackend& backend) {
  Expected expected = ExpectedOf(random);
  expected.is_exact = true;
  return TryProgram(random, expected, backend).error();
}

TEST(TwinMovesTest, AreAcceptedAndRight) {
  CpuBackend backend(2);
  for (const Place& place : kPlaces)
    for (const Twins& twins : kTwins) {
      const std::string both = Renamed(twins.a, '1') + " " + Renamed(twins.b, '2');
      for (std::string_view readers :
           {"%c = reciprocal %y1 %d = neg %y2 return c=%c, d=%d",
            "%c = maximum %y1, %y2 %d = sub %y2, %y1 return c=%c, d=%d", "return c=%y1, d=%y2"}) {
        const Graph graph = ProgramOf(place, fmt::format("{} {}", both, readers));
        EXPECT_EQ(Tried(Fed(graph), backend), "") << twins.name << " on " << place.mesh;
      }
    }
  EXPECT_GE(std::size(kTwins), 26u);
}

// Where twins move elements between devices, the local program compiled from one of them is a right local
// program of the other.
TEST(TwinMovesTest, AreEachOthersLocalPrograms) {
  int verified = 0;
  for (const Place& place : kPlaces)
    for (const Twins& twins : kTwins) {
      const Graph a = ProgramOf(place, std::string(twins.a) + " return y=%y"),
                  b = ProgramOf(place, std::string(twins.b) + " return y=%y");
      const Program program = Compile(a).value();
      const std::vector<Node>& nodes = program.body.nodes();
      if (nodes.size() != 1 || nodes[0].row->name != "exchange") continue;
      EXPECT_TRUE(Verify(b, program.body).ok())
          << twins.name << " on " << place.mesh << "\n"
          << Verify(b, program.body).status() << PrintGraph(program.body);
      ++verified;
    }
  EXPECT_GE(verified, 60);
}

TEST(OtherMovesTest, AreNoTwins) {
  CpuBackend backend(2);
  for (const Place& place : kPlaces)
    for (const Twins& twins : kOthers) {
      const Graph a = ProgramOf(place, std::string(twins.a) + " return y=%y"),
                  b = ProgramOf(place, std::string(twins.b) + " return y=%y");
      EXPECT_FALSE(Verify(a, Compile(b).value().body).ok()) << twins.name << " on " << place.mesh;
      EXPECT_FALSE(Verify(b, Compile(a).value().body).ok()) << twins.name << " on " << place.mesh;
      const Graph both =
          ProgramOf(place, fmt::format("{} {} %c = reciprocal %y1 %d = reciprocal %y2 return c=%c, d=%d",
                                       Renamed(twins.a, '1'), Renamed(twins.b, '2')));
      EXPECT_EQ(Tried(Fed(both), backend), "") << twins.name << " on " << place.mesh;
    }
}

TEST(RandomMovesTest, GiveTheBitsOfOneDevice) {
  CpuBackend backend(2);
  uint64_t failed = 0, exchanges = 0;
  const uint64_t programs = LongTests() ? 20000 : 600;
  for (uint64_t seed = 0; seed < programs && failed < 10; ++seed) {
    const RandomProgram random = RandomPrograms::DrawMoves(seed);
    const std::string error = Tried(random, backend);
    failed += !error.empty();
    EXPECT_EQ(error, "") << "seed " << seed << "\n" << PrintGraph(random.graph);
    if (seed % 10 != 0 || !error.empty()) continue;
    const Program program = Compile(random.graph).value();
    for (const Node& node : program.body.nodes()) exchanges += node.row->name == "exchange";
  }
  fmt::print("{} programs, {} failed\n", programs, failed);
  EXPECT_GE(exchanges, programs / 20);
}

}  // namespace
}  // namespace meshwork::moves_test
