#include "meshwork/ops/other_names.h"

#include <cctype>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/registry.h"
#include "meshwork/ir/row.h"

namespace meshwork::other_names_test {
namespace {

TEST(OtherNames, CompositesAreBuilt) {
  std::set<std::string_view> names;
  for (const Composite& composite : Composites()) {
    EXPECT_TRUE(names.insert(composite.name).second) << composite.name;
    EXPECT_FALSE(FindOp(composite.name).ok()) << composite.name << " is an op";
    Graph graph{Mesh()};
    const Value result = composite.example(graph);
    EXPECT_TRUE(graph.status().ok() && result.valid()) << composite.name << ": " << MessageOf(graph.status());
    EXPECT_FALSE(graph.nodes().empty()) << composite.name;
    // "Softmax(x, dim)" is called softmax.
    std::string call;
    for (char c : composite.call.substr(0, composite.call.find('('))) {
      if (std::isupper(static_cast<unsigned char>(c)) && !call.empty()) call += '_';
      call += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    EXPECT_EQ(call, composite.name);
  }
}

TEST(OtherNames, EachLeadsToAnOpOrAComposite) {
  std::set<std::string_view> names;
  for (const OtherName& other : OtherNames()) {
    EXPECT_TRUE(names.insert(other.name).second) << other.name << " stands twice";
    EXPECT_FALSE(FindOp(other.name).ok()) << other.name << " is an op";
    EXPECT_TRUE(FindOp(other.ours).ok() || FindComposite(other.ours) != nullptr) << other.ours;
  }
}

TEST(OtherNames, ErrorsSayWhatToUse) {
  EXPECT_EQ(InsteadOfOp("dot", {"not"}), "; did you mean \"matmul\"?");
  EXPECT_EQ(InsteadOfOp("mean", {}), "; did you mean \"reduce_mean\"?");
  EXPECT_EQ(InsteadOfOp("softmx", {}), "; did you mean \"softmax\"?");
  EXPECT_EQ(InsteadOfOp("xyzzy", {"neg"}), ".");
  EXPECT_EQ(
      InsteadOfOp("softmax", {}),
      "; in C++ Softmax(x, dim) writes it in terms of others, which \"meshwork ops --op softmax\" shows.");
}

}  // namespace
}  // namespace meshwork::other_names_test
