#include "meshwork/base/suggest.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace meshwork::suggest_test {
namespace {

TEST(EditDistanceTest, CountsTheEditsOfKnownPairs) {
  struct Case {
    const char *a, *b;
    int distance;
  };
  const Case kCases[] = {
      {"", "", 0},           {"", "abc", 3},      {"abc", "abc", 0},
      {"abc", "abd", 1},     {"abc", "abxc", 1},  {"model", "modle", 1},
      {"ab", "ba", 1},       {"abcd", "badc", 2}, {"kitten", "sitting", 3},
      {"batch", "model", 5}, {"ca", "abc", 3},  // not 2: a transposed pair is not edited again
  };
  for (const Case& c : kCases) EXPECT_EQ(EditDistance(c.a, c.b), c.distance) << c.a << " -> " << c.b;
}

// Every word of up to three letters of {a, b, c}: 40 words.
std::vector<std::string> ShortWords() {
  std::vector<std::string> words = {""};
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() == 3) continue;
    for (char c : {'a', 'b', 'c'}) words.push_back(words[i] + c);
  }
  return words;
}

TEST(EditDistanceTest, IsSymmetricAndZeroOnlyForEqualWords) {
  const std::vector<std::string> words = ShortWords();
  ASSERT_EQ(words.size(), 40u);
  for (const std::string& a : words) {
    for (const std::string& b : words) {
      EXPECT_EQ(EditDistance(a, b), EditDistance(b, a)) << a << ", " << b;
      EXPECT_EQ(EditDistance(a, b) == 0, a == b) << a << ", " << b;
    }
  }
}

TEST(EditDistanceTest, OneEditIsDistanceOne) {
  for (const std::string& word : ShortWords()) {
    for (size_t i = 0; i <= word.size(); ++i) {
      EXPECT_EQ(EditDistance(word, std::string(word).insert(i, 1, 'x')), 1) << word;
      if (i == word.size()) continue;
      EXPECT_EQ(EditDistance(word, std::string(word).erase(i, 1)), 1) << word;
      EXPECT_EQ(EditDistance(word, std::string(word).replace(i, 1, "x")), 1) << word;
      std::string swapped = word;
      if (i > 0) std::swap(swapped[i - 1], swapped[i]);
      EXPECT_EQ(EditDistance(word, swapped), swapped == word ? 0 : 1) << word;
    }
  }
}

TEST(DidYouMeanTest, OffersTheNearestCandidateWithinAThirdOfTheLength) {
  struct Case {
    const char* name;
    std::vector<std::string> candidates;
    const char* hint;
  };
  const Case kCases[] = {
      {"modle", {"batch", "model"}, "; did you mean \"model\"?"},
      {"model", {"batch"}, ""},
      {"model", {}, ""},
      {"xy", {"y"}, "; did you mean \"y\"?"},      // at least one edit is allowed
      {"xy", {"yz"}, ""},                          // and for a short name not two
      {"x", {"y"}, ""},                            // nothing in common
      {"Y", {"x", "y"}, "; did you mean \"y\"?"},  // capitals do not matter
      {"ReLU", {"elu", "relu"}, "; did you mean \"relu\"?"},
      {"abcde", {"abxye"}, ""},                              // 5 letters: one edit
      {"abcdef", {"abxyef"}, "; did you mean \"abxyef\"?"},  // 6 letters: two
      {"abcdefghijklmno", {"abcdefghijkxyz0"}, ""},          // 15 letters: three, and not four
      {"abcdefghijklmno", {"abcdefghijklxyz"}, "; did you mean \"abcdefghijklxyz\"?"},
      {"ab", {"ac", "bb"}, "; did you mean \"ac\"?"},  // ties: the first
      {"reduce_sun",
       {"reduce_max", "reduce_sum"},
       "; did you mean \"reduce_sum\"?"},  // not the first that is near enough
      {"", {"x"}, ""},
  };
  for (const Case& c : kCases) EXPECT_EQ(DidYouMean(c.name, c.candidates), c.hint) << c.name;
}

TEST(DidYouMeanTest, ListsTheCandidatesWhereNoneIsNear) {
  EXPECT_EQ(DidYouMeanOneOf("modle", {"batch", "model"}, "axes"), "; did you mean \"model\"?");
  EXPECT_EQ(DidYouMeanOneOf("expert", {"batch", "model"}, "axes"), "; the axes are batch, model.");
  EXPECT_EQ(DidYouMeanOneOf("expert", {}, "axes"), "; there are no axes.");
  EXPECT_EQ(DidYouMeanOneOf("x", {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, "axes"),
            "; the axes are a, b, c, d, e, f, g, h, i and 1 more.");
}

}  // namespace
}  // namespace meshwork::suggest_test
