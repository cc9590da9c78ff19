// The committed pictures agree with the library's answers; UPDATE_GOLDEN=1 draws them again.
#include "docs/pictures.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "support/golden.h"

namespace meshwork::docs {
namespace {

TEST(PicturesTest, ShowWhatTheLibrarySays) {
  std::set<std::string> drawn;
  for (const auto& [name, svg] : DrawPictures()) {
    drawn.insert("../docs/pictures/" + name);
    ExpectGolden("../docs/pictures/" + name, svg);
  }
  // A browser draws this one: tests/tools/report/page_test.cc.
  drawn.insert("../docs/pictures/report.png");
  for (const std::string& file : GoldenFiles("../docs/pictures"))
    EXPECT_TRUE(drawn.contains(file)) << "nothing draws " << file;
}

}  // namespace
}  // namespace meshwork::docs
