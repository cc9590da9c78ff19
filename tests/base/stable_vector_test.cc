#include "meshwork/base/stable_vector.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::stable_vector_test {
namespace {

static_assert(std::random_access_iterator<StableVector<int>::iterator>);
static_assert(std::random_access_iterator<StableVector<int>::const_iterator>);
static_assert(std::is_convertible_v<StableVector<int>::iterator, StableVector<int>::const_iterator>);
static_assert(!std::is_convertible_v<StableVector<int>::const_iterator, StableVector<int>::iterator>);
static_assert(std::is_nothrow_move_constructible_v<StableVector<std::string>>);

// Sizes around the ends of blocks of elements.
constexpr int kSizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 100};

StableVector<std::string> Counted(int size) {
  StableVector<std::string> list;
  for (int i = 0; i < size; ++i) list.push_back(std::to_string(i));
  return list;
}

std::vector<std::string> Listed(const StableVector<std::string>& list) { return {list.begin(), list.end()}; }

TEST(StableVectorTest, HasWhatWasAppendedInItsOrder) {
  for (const int size : kSizes) {
    StableVector<std::string> list = Counted(size);
    EXPECT_EQ(list.size(), static_cast<size_t>(size));
    EXPECT_EQ(list.empty(), size == 0);
    const std::vector<std::string> listed = Listed(list);
    ASSERT_EQ(listed.size(), static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) {
      EXPECT_EQ(listed[i], std::to_string(i));
      EXPECT_EQ(&list[i], &std::as_const(list)[i]);
    }
    for (std::string& text : list) text += "!";
    for (int i = 0; i < size; ++i) EXPECT_EQ(list[i], std::to_string(i) + "!");
  }
}

TEST(StableVectorTest, ElementsStayWhereTheyAre) {
  for (const int size : kSizes) {
    StableVector<std::string> list = Counted(size);
    // A copy has room of its own, and does not move its elements either.
    StableVector<std::string> copy = list;
    for (StableVector<std::string>* grown : {&list, &copy}) {
      std::vector<const std::string*> places;
      for (const std::string& text : *grown) places.push_back(&text);
      for (int i = 0; i < 200; ++i) grown->push_back("more");
      StableVector<std::string> moved = std::move(*grown);
      EXPECT_EQ(moved.size(), static_cast<size_t>(size + 200));
      for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(&moved[i], places[i]) << size;
    }
  }
}

TEST(StableVectorTest, AppendsAnElementOfItsOwn) {
  StableVector<std::string> list = Counted(16);
  for (int i = 0; i < 100; ++i) list.push_back(list[0]);
  EXPECT_EQ(std::count(list.begin(), list.end(), "0"), 101);
}

TEST(StableVectorTest, CopiesAreIndependent) {
  for (const int size : kSizes) {
    const StableVector<std::string> list = Counted(size);
    StableVector<std::string> copy = list;
    copy.push_back("more");
    StableVector<std::string> assigned = Counted(40);
    assigned = list;
    EXPECT_EQ(Listed(assigned), Listed(list));
    assigned.push_back("more");
    EXPECT_EQ(Listed(assigned), Listed(copy));
    EXPECT_EQ(list.size(), static_cast<size_t>(size));
    if (size == 0) continue;
    copy[0] = "changed";
    EXPECT_EQ(list[0], "0");
  }
}

TEST(StableVectorTest, IsEmptyWhenMovedFromAndGrowsAgain) {
  StableVector<std::unique_ptr<int>> list;
  for (int i = 0; i < 20; ++i) list.push_back(std::make_unique<int>(i));
  StableVector<std::unique_ptr<int>> moved = std::move(list);
  EXPECT_EQ(*moved[19], 19);
  EXPECT_TRUE(list.empty());  // NOLINT(bugprone-use-after-move)
  list.push_back(std::make_unique<int>(7));
  EXPECT_EQ(*list[0], 7);
  list = std::move(moved);
  EXPECT_EQ(list.size(), 20u);
}

TEST(StableVectorTest, IteratorsGoAnywhere) {
  StableVector<int> list;
  for (int i = 0; i < 50; ++i) list.push_back((i * 37) % 50);
  const auto begin = list.begin();
  EXPECT_EQ(list.end() - begin, 50);
  EXPECT_EQ(*(begin + 20), list[20]);
  EXPECT_EQ(begin[33], list[33]);
  EXPECT_EQ(*std::prev(list.end()), list[49]);
  EXPECT_LT(begin, begin + 1);
  auto at = begin;
  EXPECT_EQ(*at++, list[0]);
  EXPECT_EQ(*at--, list[1]);
  EXPECT_EQ(at, begin);
  std::sort(list.begin(), list.end());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(list[i], i);
  const StableVector<int>::const_iterator found = std::lower_bound(list.begin(), list.end(), 30);
  EXPECT_EQ(found - list.begin(), 30);
}

}  // namespace
}  // namespace meshwork::stable_vector_test
