// The page in a browser: a click on a collective shows its facts and the cheapest change, nothing is fetched, and no
// script fails. Skipped where there is no Chromium.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/report/html_report.h"
#include "nlohmann/json.hpp"
#include "support/temp_dir.h"
#include "tools/report/browser.h"
#include "tools/report/programs.h"

namespace meshwork::page_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReportPageTest : public TempDirTest {
 protected:
  void SetUp() override {
    const std::string program = FindBrowser();
    if (program.empty()) GTEST_SKIP() << "there is no chromium";
    browser_ = std::make_unique<Browser>(program, Path("profile"));
    ASSERT_TRUE(browser_->ok());
    browser_->SetSize(1300, 1000, /*dark=*/false);
  }
  // No script has failed, and nothing was fetched.
  void TearDown() override {
    if (browser_ == nullptr) return;
    Evaluate("0");  // by its answer, all earlier events have been noted
    EXPECT_THAT(browser_->errors(), expected_errors_);
    EXPECT_THAT(browser_->requests(), expected_requests_);
  }

  void Open(std::string_view text, std::string_view file_name = "step.mw",
            const HtmlReportOptions& options = {}) {
    const Graph global = ParseGraph(text, file_name).value();
    const Program program = Compile(global, options.compile).value();
    browser_->Open(File("report.html", HtmlReport(global, program, options)));
    ASSERT_EQ(Evaluate("document.documentElement.dataset.ready"), "1");
  }

  nlohmann::json Evaluate(std::string_view expression) { return browser_->Evaluate(expression); }
  // The texts of all elements of a CSS selector, one a line.
  std::string Texts(std::string_view selector) {
    return Evaluate(fmt::format("[...document.querySelectorAll({})].map(e => e.textContent).join('\\n')",
                                nlohmann::json(selector).dump()))
        .get<std::string>();
  }
  int64_t Count(std::string_view selector) {
    return Evaluate(fmt::format("document.querySelectorAll({}).length", nlohmann::json(selector).dump()))
        .get<int64_t>();
  }
  // Returns after the next frames are drawn.
  void AwaitFrames() {
    Evaluate("(async () => { for (let i = 0; i < 3; ++i) await new Promise(requestAnimationFrame); })()");
  }

  void ExpectFirstCollectiveIsShown() {
    EXPECT_THAT(Texts("#panel h2"), HasSubstr("all_reduce over (model)"));
    EXPECT_EQ(Texts("#panel [data-field=line]"), "step.mw:4");
    EXPECT_THAT(Texts("#panel [data-field=rule]"), HasSubstr("mk,kn->mn"));
    EXPECT_EQ(Texts("#panel [data-field=from]"), "{batch,_ | sum:model}");
    EXPECT_EQ(Texts("#panel [data-field=to]"), "{batch,_}");
    EXPECT_EQ(
        Texts("#panel [data-field=cause]"),
        "matmul (step.mw:4) leaves f32[128,500] {batch,_ | sum:model} (letter k of mk,kn->mn is reduced over "
        "(model)) and it is wanted as {batch,_}");
    EXPECT_THAT(Texts("#panel [data-field=change]"),
                HasSubstr("%y {(batch,model),_} instead of {batch,_} (step.mw:4)"));
  }

  std::unique_ptr<Browser> browser_;
  testing::Matcher<std::vector<std::string>> expected_errors_ = IsEmpty(), expected_requests_ = IsEmpty();
};

// Checks the checks: without this, the tests below would prove nothing.
TEST_F(ReportPageTest, AnotherPagesErrorsAndRequestsAreNoticed) {
  browser_->Open(
      File("other.html", "<img src='none.png'><script>console.error('it', 'says'); missing();</script>"));
  expected_errors_ = AllOf(Contains(HasSubstr("says")), Contains(HasSubstr("missing is not defined")));
  expected_requests_ = ElementsAre(HasSubstr("/none.png"));
}

TEST_F(ReportPageTest, AClickOnACollectiveInTheTableShowsItsLineItsRuleAndTheCheapestChange) {
  Open(kStepProgram);
  EXPECT_EQ(Count("#panel.open"), 0);
  browser_->Click("#collectives button[data-collective='0']");
  ExpectFirstCollectiveIsShown();
  AwaitFrames();
  // The collective is marked in every view.
  EXPECT_EQ(Evaluate("document.querySelector('.vertex.selected').dataset.collective"), "0");
  EXPECT_EQ(Evaluate("document.querySelector('.span.selected').dataset.collective"), "0");
  EXPECT_EQ(Evaluate("document.querySelector('tr.chosen').dataset.row"), "0");
}

TEST_F(ReportPageTest, SoDoesAClickInTheGraphAndOnTheTimeLine) {
  Open(kStepProgram);
  AwaitFrames();
  browser_->Click("#graph .vertex[data-collective='0']");
  ExpectFirstCollectiveIsShown();
  browser_->Click("#times .span[data-collective='1']");
  EXPECT_THAT(Texts("#panel h2"), HasSubstr("all_reduce over (batch)"));
  EXPECT_THAT(Texts("#panel [data-field=rule]"), HasSubstr("ab->"));
}

TEST_F(ReportPageTest, TheKeysDoTheSame) {
  Open(kStepProgram);
  Evaluate("document.querySelector(\"#collectives button[data-collective='0']\").focus()");
  browser_->Press("Enter");
  ExpectFirstCollectiveIsShown();
  browser_->Press("Escape");
  EXPECT_EQ(Count("#panel.open"), 0);
  EXPECT_EQ(Evaluate("document.activeElement.dataset.collective"), "0");  // the focus returns to where it was
  AwaitFrames();
  Evaluate("document.querySelector(\"#graph .vertex[data-collective='0']\").focus()");
  browser_->Press("Enter");
  ExpectFirstCollectiveIsShown();
}

TEST_F(ReportPageTest, ShowsTheProgramWithLayoutsAsColours) {
  Open(kStepProgram);
  AwaitFrames();
  EXPECT_THAT(Texts("#facts"), HasSubstr("computes your program"));
  // Two arguments, four ops, two results, a variable's new value, two collectives.
  EXPECT_EQ(Count("#graph .vertex"), 11);
  EXPECT_EQ(Count("#graph .vertex.collective"), 2);
  EXPECT_GE(Count("#graph .edge"), 10);
  // Each set of axes has one colour, on edges and in the legend alike.
  EXPECT_THAT(Texts("#legend"), HasSubstr("cut over (batch,model) {batch,model}"));
  const auto edge = [&](std::string_view title) {
    return Evaluate(
        fmt::format("getComputedStyle([...document.querySelectorAll('.edge')].find(e => "
                    "e.querySelector('title').textContent === '{}')).stroke",
                    title));
  };
  EXPECT_NE(edge("%h {batch,model}"), edge("%w {model,_}"));
  EXPECT_NE(edge("%w {model,_}"), edge("%y {batch,_}"));
  EXPECT_EQ(edge("%y {batch,_ | sum:model}"), edge("%y {batch,_}"));  // dashed
}

TEST_F(ReportPageTest, SortsCollectivesAndListsCheaperLayouts) {
  Open(kStepProgram);
  const auto rows = [&] {
    return Evaluate("[...document.querySelectorAll('tr.row')].map(r => r.dataset.row).join()");
  };
  EXPECT_EQ(rows(), "0,1");
  browser_->Click("#collectives th:nth-child(4) button");  // by value: %loss, %y
  EXPECT_EQ(rows(), "1,0");
  browser_->Click("#collectives th:nth-child(8) button");  // by bytes per step, the most first
  EXPECT_EQ(rows(), "0,1");
  EXPECT_EQ(Evaluate("document.querySelector('#collectives th:nth-child(8)').getAttribute('aria-sort')"),
            "descending");
  EXPECT_THAT(Texts("#alternatives tbody tr"), HasSubstr("%y{(batch,model),_}{batch,_}step.mw:4"));
}

TEST_F(ReportPageTest, NamesAreTextAndNoMarkup) {
  Open(kStepProgram, "</script><img src=https://example.com/x onerror=alert(1)>\"'.mw");
  browser_->Click("#collectives button[data-collective='0']");
  EXPECT_EQ(Texts("#panel [data-field=line]"),
            "</script><img src=https://example.com/x onerror=alert(1)>\"'.mw:4");
  EXPECT_EQ(Count("img"), 0);
}

TEST_F(ReportPageTest, ShowsCollectivesInTheBodiesOfLoops) {
  Open(kLoopProgram, "loop.mw");
  browser_->Click("#collectives button[data-collective='0']");
  EXPECT_THAT(Texts("#panel"), HasSubstr("body 1 of scan (loop.mw:3)"));
  EXPECT_THAT(Texts("#panel"), HasSubstr("5 times"));
  AwaitFrames();
  EXPECT_EQ(Evaluate("document.querySelector('#graph .vertex.selected').dataset.collective"), "0");
  EXPECT_EQ(Evaluate("document.querySelector('.span.selected').dataset.collective"), "0");
}

// 128 layers of 13 ops: only the visible part is in the page, and any part appears when it is asked for.
TEST_F(ReportPageTest, ALongProgramIsDrawnWhereItIsSeen) {
  Open(LongProgram(128), "long.mw", {.alternatives = 0});
  AwaitFrames();
  EXPECT_GT(Evaluate("JSON.parse(document.getElementById('data').textContent).drawings[0].vertices.length"),
            1500);
  EXPECT_LT(Count("#graph .vertex"), 200);
  EXPECT_EQ(Count("tr.row"), 100);
  browser_->Click("#graph-tools button:nth-of-type(5)");  // "previous": at first this selects the last
  AwaitFrames();
  const int64_t last =
      Evaluate("JSON.parse(document.getElementById('data').textContent).collectives.length").get<int64_t>() -
      1;
  EXPECT_GT(last, 100);
  EXPECT_EQ(Evaluate("document.querySelector('#graph .vertex.selected').dataset.collective"),
            fmt::format("{}", last));
  EXPECT_LT(Count("#graph .vertex"), 200);
}

// A graph that gets a scrollbar has less room.
TEST_F(ReportPageTest, ScrollbarsAreNoErrors) {
  browser_->ShowScrollbars(true);
  for (const int width : {1300, 700, 400}) {
    browser_->SetSize(width, 500, /*dark=*/false);
    for (const int layers : {1, 2, 8}) {
      Open(LongProgram(layers), "step.mw", {.alternatives = 0});
      AwaitFrames();
      EXPECT_THAT(browser_->errors(), IsEmpty()) << width << " " << layers;
    }
  }
}

// Writes the pictures of docs/pictures if UPDATE_PICTURES=1 is in the environment. They are not compared, for other
// browsers draw other pixels.
TEST_F(ReportPageTest, DrawsTheDocsPictures) {
  Open(kStepProgram);
  browser_->SetSize(1080, 1340, /*dark=*/false);
  AwaitFrames();
  Evaluate("document.querySelector(\"#collectives button[data-collective='0']\").click(), scrollTo(0, 0)");
  AwaitFrames();
  const std::string picture = browser_->Screenshot();
  EXPECT_TRUE(picture.starts_with("\x89PNG"));
  const char* update = std::getenv("UPDATE_PICTURES");
  if (update == nullptr || std::string_view(update) != "1") return;
  const auto path = std::filesystem::path(MESHWORK_TEST_DIR).parent_path() / "docs/pictures/report.png";
  std::ofstream(path, std::ios::binary) << picture;
}

}  // namespace
}  // namespace meshwork::page_test
