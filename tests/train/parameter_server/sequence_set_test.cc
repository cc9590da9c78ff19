#include "meshwork/train/parameter_server/sequence_set.h"

#include <algorithm>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace meshwork::sequence_set_test {
namespace {

TEST(SequenceSetTest, KnowsWhatWasAddedInAnyOrder) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<int64_t> numbers(40);
    for (int64_t i = 0; i < 40; ++i) numbers[i] = i + 1;
    std::shuffle(numbers.begin(), numbers.end(), random);
    SequenceSet set;
    std::set<int64_t> reference;
    for (const int64_t number : numbers) {
      EXPECT_TRUE(set.Add(number));
      EXPECT_FALSE(set.Add(number));
      reference.insert(number);
      std::vector<int64_t> missing;
      for (int64_t i = 1; i <= 40; ++i) {
        EXPECT_EQ(set.Contains(i), reference.contains(i));
        if (!reference.contains(i)) missing.push_back(i);
      }
      EXPECT_EQ(set.MissingThrough(40), missing);
      EXPECT_EQ(set.last(), *reference.rbegin());
      EXPECT_EQ(SequenceSet::Parse(set.ToString()).value(), set);
    }
    EXPECT_EQ(set.through(), 40);
    EXPECT_EQ(set.ToString(), "40");
  }
}

TEST(SequenceSetTest, RefusesWhatIsNoSet) {
  for (const char* text : {"", "x", "-1", "5 5", "7 3", "1  3", "99999999999999999999"})
    EXPECT_FALSE(SequenceSet::Parse(text).ok()) << text;
}

}  // namespace
}  // namespace meshwork::sequence_set_test
