// Movements, tested on tensors whose elements are all different, element by element.
#include "meshwork/ir/movement.h"

#include <bit>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace meshwork::movement_test {
namespace {

// Element -> "source[position,…]", or the bits of the fill.
using Elements = std::map<std::vector<int64_t>, std::string>;

void ForEachPosition(const Shape& shape, const std::function<void(const std::vector<int64_t>&)>& f) {
  std::vector<int64_t> at(shape.size(), 0);
  for (int64_t i = NumElements(shape); i > 0; --i) {
    f(at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

std::string FillOf(double value) { return fmt::format("{:x}", std::bit_cast<uint64_t>(value)); }

// The elements of sources 0, 1, … of these shapes.
std::vector<Elements> SourcesOf(const std::vector<Type>& types) {
  std::vector<Elements> sources;
  for (size_t s = 0; s < types.size(); ++s) {
    Elements& elements = sources.emplace_back();
    ForEachPosition(types[s].shape, [&](const std::vector<int64_t>& at) {
      elements[at] = fmt::format("{}{}", s, ShapeToString(Shape(at.begin(), at.end())));
    });
  }
  return sources;
}

// The elements of an exchange, by the definition of its attributes.
Elements Exchanged(const Exchange& exchange, const std::vector<Elements>& operands, const Shape& shape) {
  Elements result;
  ForEachPosition(shape, [&](const std::vector<int64_t>& at) {
    result[at] = FillOf(exchange.value);
    for (size_t o = 0; o < operands.size(); ++o) {
      std::vector<int64_t> from;
      for (size_t d = 0; d < at.size(); ++d) {
        const ExchangeDim& dim = exchange.dims[d];
        const int64_t position = at[d] * dim.stride + dim.offsets[o];
        from.push_back(position % dim.spacing == 0 ? position / dim.spacing : -1);
      }
      if (const auto found = operands[o].find(from); found != operands[o].end()) result[at] = found->second;
    }
  });
  return result;
}

Elements Moved(const Movement& movement, const std::vector<Elements>& sources) {
  Elements result;
  ForEachPosition(movement.type.shape, [&](const std::vector<int64_t>& at) {
    if (movement.fill.has_value()) result[at] = FillOf(std::bit_cast<double>(*movement.fill));
  });
  for (const MovedPart& part : movement.parts) {
    Shape counts;
    for (const ExchangeRun& run : part.runs) counts.push_back(run.count);
    ForEachPosition(counts, [&](const std::vector<int64_t>& k) {
      std::vector<int64_t> to, from;
      for (size_t d = 0; d < k.size(); ++d) {
        to.push_back(part.runs[d].to + k[d] * part.runs[d].to_step);
        from.push_back(part.runs[d].from + k[d] * part.runs[d].from_step);
      }
      result[to] = sources[static_cast<size_t>(part.source)].at(from);
    });
  }
  return result;
}

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  // In [low, high].
  int64_t Draw(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  double Fill() {
    constexpr double kFills[] = {0.0, -0.0, 1.5, std::numeric_limits<double>::quiet_NaN()};
    return kFills[Draw(0, 3)];
  }

 private:
  std::mt19937_64 engine_;
};

// An exchange of one operand, or of two that are joined along a dim.
struct DrawnMove {
  Exchange exchange;
  std::vector<Type> operands;
  Type result;
};

DrawnMove DrawMove(const Type& x, Dice& dice) {
  DrawnMove drawn{{.value = dice.Fill()}, {x}, {x.dtype, {}}};
  const bool joins = x.rank() > 0 && dice.Draw(0, 3) == 0;
  const int64_t joined = joins ? dice.Draw(0, x.rank() - 1) : -1;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t n = x.shape[static_cast<size_t>(d)];
    if (d == joined) {
      const int64_t first = dice.Draw(-1, n), gap = dice.Draw(0, 1);
      drawn.exchange.dims.push_back({.offsets = {-first, -(first + n + gap)}});
      if (dice.Draw(0, 1) == 0)
        std::swap(drawn.exchange.dims.back().offsets[0], drawn.exchange.dims.back().offsets[1]);
      drawn.result.shape.push_back(dice.Draw(0, 2 * n + 2));
      continue;
    }
    const bool plain = joins || dice.Draw(0, 2) == 0;
    ExchangeDim dim{.stride = plain ? 1 : dice.Draw(1, 3), .spacing = plain ? 1 : dice.Draw(1, 2)};
    if (!plain && dice.Draw(0, 3) == 0) dim.stride = -dim.stride;
    const int64_t offset = plain && dice.Draw(0, 1) == 0 ? 0 : dice.Draw(-2, n);
    dim.offsets = {offset, offset};
    drawn.exchange.dims.push_back(dim);
    drawn.result.shape.push_back(dice.Draw(0, 6) == 0 ? dice.Draw(0, 5) : n);
  }
  if (joins) drawn.operands.push_back(x);
  for (ExchangeDim& dim : drawn.exchange.dims) dim.offsets.resize(drawn.operands.size());
  return drawn;
}

Type DrawType(Dice& dice) {
  Type type{F32, {}};
  for (int64_t d = dice.Draw(1, 2); d > 0; --d) type.shape.push_back(dice.Draw(0, 4));
  return type;
}

// A node moves elements as its movement says, and nodes that move alike have one key.
TEST(MovementTest, IsWhatAnExchangeDoes) {
  std::map<std::string, std::vector<int64_t>> keys;  // by the elements of the result
  int same = 0;
  for (uint64_t seed = 0; seed < 60000; ++seed) {
    Dice dice(seed);
    const Type x = DrawType(dice);
    const DrawnMove drawn = DrawMove(x, dice);
    const std::vector<int32_t> sources(drawn.operands.size(), 0);
    const std::vector<Elements> elements = SourcesOf({x});
    const Movement movement = MovementOf(drawn.exchange, drawn.operands, sources, drawn.result);
    const Elements expected = Exchanged(
        drawn.exchange, std::vector<Elements>(drawn.operands.size(), elements[0]), drawn.result.shape);
    ASSERT_EQ(Moved(movement, elements), expected) << "seed " << seed;
    ASSERT_EQ(movement.IsIdentity(x), x == drawn.result && expected == elements[0] && !expected.empty())
        << "seed " << seed;
    std::string text = ShapeToString(drawn.result.shape);
    for (const auto& [at, element] : expected) text += " " + element;
    const auto [it, is_new] = keys.try_emplace(text, movement.Key());
    same += !is_new;
    ASSERT_EQ(it->second, movement.Key()) << "seed " << seed << ": " << text;
  }
  EXPECT_GT(same, 10000);
}

// The movement of a chain is that of its steps; nodes that do not move elements stay. Equal keys mean equal elements.
TEST(MovementTest, OfAChainIsWhatItsStepsDo) {
  std::map<std::vector<int64_t>, Elements> by_key;
  int composed = 0, identities = 0, same = 0;
  for (uint64_t seed = 0; seed < 60000; ++seed) {
    Dice dice(seed);
    const Type x = DrawType(dice);
    const DrawnMove first = DrawMove(x, dice), second = DrawMove(first.result, dice);
    const std::vector<Elements> elements = SourcesOf({x});
    const Movement inner = MovementOf(first.exchange, first.operands,
                                      std::vector<int32_t>(first.operands.size(), 0), first.result);
    // Source 1 is the result of the first exchange.
    const Movement outer = MovementOf(second.exchange, second.operands,
                                      std::vector<int32_t>(second.operands.size(), 1), second.result);
    const Movement chain = Composed(outer, [&](int32_t source) { return source == 1 ? &inner : nullptr; });
    const std::vector<Elements> all = {elements[0], Moved(inner, elements)};
    const Elements expected = Exchanged(
        second.exchange, std::vector<Elements>(second.operands.size(), all[1]), second.result.shape);
    ASSERT_EQ(Moved(chain, all), expected) << "seed " << seed;
    bool is_composed = true;
    for (const MovedPart& part : chain.parts) is_composed = is_composed && part.source == 0;
    if (!is_composed) continue;
    ++composed;
    identities += chain.IsIdentity(x);
    ASSERT_TRUE(!chain.IsIdentity(x) || expected == elements[0]) << "seed " << seed;
    std::vector<int64_t> key = chain.Key();
    key.insert(key.end(), x.shape.begin(), x.shape.end());
    const auto [it, is_new] = by_key.try_emplace(std::move(key), expected);
    same += !is_new;
    ASSERT_EQ(it->second, expected) << "seed " << seed;
  }
  EXPECT_GT(composed, 30000);
  EXPECT_GT(identities, 100);
  EXPECT_GT(same, 1000);
}

// Steps are found without a walk over the positions between them.
TEST(MovementTest, TakesNoTimeForLongSteps) {
  constexpr int64_t kStep = (int64_t{1} << 38) - 1;
  const Exchange pad{.dims = {{.spacing = kStep, .offsets = {-kStep + 1}}}};
  const Type x{F32, {3}}, y{F32, {3 * kStep}};
  const Movement movement = MovementOf(pad, std::vector<Type>{x}, std::vector<int32_t>{0}, y);
  ASSERT_EQ(movement.parts.size(), 1u);
  EXPECT_EQ(movement.parts[0].runs[0],
            (ExchangeRun{.count = 3, .to = kStep - 1, .to_step = kStep, .from = 0, .from_step = 1}));
}

}  // namespace
}  // namespace meshwork::movement_test
