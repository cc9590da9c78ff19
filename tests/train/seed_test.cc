// SetSeed: everything described without a seed of its own behaves as if it had been given this seed.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "runtime/plan/programs.h"
#include "support/tensors.h"
#include "train/classifier.h"
#include "train/data/pipeline_values.h"

namespace meshwork::seed_test {
namespace {

class SeedTest : public testing::Test {
 protected:
  ~SeedTest() override { SetSeed(0); }
};

// The results of one draw. `seed` of Draw is given to each thing; without it, nothing is given a seed.
struct Drawn {
  Tensors variables;
  std::vector<double> dropped;
  std::string data;
  Walked order;

  bool operator==(const Drawn& other) const {
    if (variables.size() != other.variables.size()) return false;
    for (const auto& [name, tensor] : variables)
      if (NumbersOf(tensor) != NumbersOf(other.variables.at(name))) return false;
    return dropped == other.dropped && data == other.data && order == other.order;
  }
};

Drawn Draw(std::optional<int64_t> seed) {
  Graph g(Mesh::VirtualCpus("batch=2").value());
  const Value x = g.Input("x", F64, {8, 6}, {"batch", UNSHARDED});
  const Dropout drop = seed.has_value() ? Dropout(g, "drop", 0.5, {.seed = *seed}) : Dropout(g, "drop", 0.5);
  g.Output("y", Dense(g, "dense", 6, 3, {.dtype = F64})(drop(x)));
  SessionOptions options;
  if (seed.has_value()) options.seed = *seed;
  Session session = Session::Create(g, options).value();
  const Pipeline numbers = Numbers(20);
  const Pipeline data =
      seed.has_value() ? numbers.Shuffle(20, static_cast<uint64_t>(*seed)) : numbers.Shuffle(20);
  Drawn drawn{StateOf(session), {}, data.ToString(), Walk(data)};
  drawn.dropped = NumbersOf(session.Run({{"x", Rough(Type{F64, {8, 6}})}})->Get("y").value());
  return drawn;
}

TEST_F(SeedTest, IsThatOfWhatIsGivenNone) {
  const Drawn zero = Draw(0);
  EXPECT_EQ(Draw({}), zero);
  for (const int64_t seed : {1, 42, -7}) {
    SetSeed(seed);
    EXPECT_EQ(DefaultSeed(), seed);
    EXPECT_EQ(Draw({}), Draw(seed));
    EXPECT_FALSE(Draw({}) == zero);
    EXPECT_EQ(Draw(0), zero);  // things with a seed of their own keep it
  }
}

TEST_F(SeedTest, OfWhatHasBeenDescribedStays) {
  SetSeed(3);
  const Pipeline data = Numbers(20).Shuffle(20);
  const SessionOptions options;
  const Walked before = Walk(data);
  SetSeed(4);
  EXPECT_EQ(Walk(data), before);
  EXPECT_EQ(options.seed, 3);
  EXPECT_NE(Walk(Numbers(20).Shuffle(20)), before);
}

}  // namespace
}  // namespace meshwork::seed_test
