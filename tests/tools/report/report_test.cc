// The data of the page: it is complete, and names that look like markup stay text.
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/plan/explain.h"
#include "meshwork/ir/text.h"
#include "meshwork/spmd/auto/cheaper_layouts.h"
#include "meshwork/spmd/compile.h"
#include "meshwork/tools/report/cheapest_change.h"
#include "meshwork/tools/report/drawing.h"
#include "meshwork/tools/report/html_report.h"
#include "meshwork/verify/verify.h"
#include "nlohmann/json.hpp"
#include "tools/report/programs.h"

namespace meshwork::report_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

struct Compiled {
  Graph global;
  Program program;
};

Compiled CompileText(std::string_view text, std::string_view file_name = "step.mw") {
  Graph global = ParseGraph(text, file_name).value();
  Program program = Compile(global).value();
  return {std::move(global), std::move(program)};
}

// "%h -> matmul {batch,model}".
std::vector<std::string> EdgesOf(const Drawing& drawing) {
  std::vector<std::string> edges;
  for (const DrawnEdge& edge : drawing.edges)
    edges.push_back(fmt::format("{} -> {} {}", drawing.vertices[edge.from].label,
                                drawing.vertices[edge.to].label, edge.layout.text));
  return edges;
}

TEST(DrawingTest, IsTheUsersProgramWithCollectivesOnItsEdges) {
  const Compiled step = CompileText(kStepProgram);
  const Drawings drawings =
      DrawProgram(step.global, step.program.body, Verify(step.global, step.program.body).value());
  ASSERT_EQ(drawings.all.size(), 1u);
  EXPECT_EQ(drawings.unseen, 0);
  EXPECT_THAT(EdgesOf(drawings.all[0]),
              UnorderedElementsAre(
                  "%h -> matmul {batch,model}", "%w -> matmul {model,_}",
                  "matmul -> all_reduce {batch,_ | sum:model}", "all_reduce -> reduce_sum {batch,_}",
                  "reduce_sum -> all_reduce {| sum:batch}", "%w -> mul {model,_}", "constant -> mul {}",
                  "mul -> %w {model,_}", "all_reduce -> y {batch,_}", "all_reduce -> loss {}"));
}

TEST(DrawingTest, NamesWhatMakesAndWhatReadsTheValueOfACollective) {
  const Compiled step = CompileText(kStepProgram);
  const Drawings drawings =
      DrawProgram(step.global, step.program.body, Verify(step.global, step.program.body).value());
  const Drawing& drawing = drawings.all[0];
  const ValueUsers users(drawing);
  std::vector<std::string> texts;
  for (int v = 0; v < static_cast<int>(drawing.vertices.size()); ++v) {
    if (drawing.vertices[v].collective != 0) continue;
    for (int maker : users.MakersOf(v, 0))
      texts.push_back(drawing.vertices[maker].text + ", " + drawing.vertices[maker].rule);
    for (int reader : users.ReadersOf(v, 0))
      texts.push_back(drawing.vertices[reader].text + ", " + drawing.vertices[reader].rule);
  }
  EXPECT_THAT(texts,
              ElementsAre("%y = matmul %h, %w, mk,kn->mn", "%loss = reduce_sum %y, ab->", "return y, "));
}

// Nodes that devices run for a part of an op, to cut a block, or to mask it, are not vertices of their own.
TEST(DrawingTest, WhatDevicesRunBesidesIsNoVertex) {
  const Compiled padded = CompileText(R"(mesh [x=4]
func f(%a: f32[10,6] {x,_}, %b: f32[10,6] {x,_}) {
  %c = cumsum %a dim=0 : f32[10,6] {x,_}
  %d = matmul %c, %b transpose_a=true
  %e = relayout %b {_,_} : f32[10,6] {_,_}
  %f = tanh %e : f32[10,6] {_,_}
  %g = relayout %f {_,x} : f32[10,6] {_,x}
  return d=%d, f=%f, g=%g
}
)");
  EXPECT_GT(padded.program.body.nodes().size(), 12u);
  const Drawings drawings =
      DrawProgram(padded.global, padded.program.body, Verify(padded.global, padded.program.body).value());
  std::vector<std::string> labels;
  for (const DrawnVertex& vertex : drawings.all[0].vertices) labels.push_back(vertex.label);
  EXPECT_THAT(labels, UnorderedElementsAre("%a", "%b", "cumsum", "all_gather", "matmul", "all_reduce",
                                           "all_gather", "tanh", "d", "f", "g"));
  EXPECT_EQ(drawings.unseen, 2);  // relayouts are no ops of devices
}

TEST(DrawingTest, BodiesOfLoopsAreDrawingsOfTheirOwn) {
  const Compiled loop = CompileText(kLoopProgram);
  const Drawings drawings =
      DrawProgram(loop.global, loop.program.body, Verify(loop.global, loop.program.body).value());
  ASSERT_EQ(drawings.all.size(), 2u);
  EXPECT_EQ(drawings.all[1].title, "body 1 of scan (step.mw:3)");
  EXPECT_EQ(drawings.all[1].times, 5);
  EXPECT_THAT(EdgesOf(drawings.all[1]), testing::Contains("matmul -> reduce_scatter {data,_ | sum:model}"));
  std::vector<int> bodies;
  for (const DrawnVertex& vertex : drawings.all[0].vertices)
    bodies.insert(bodies.end(), vertex.bodies.begin(), vertex.bodies.end());
  EXPECT_THAT(bodies, ElementsAre(1));
}

TEST(CheapestChangeTest, IsTheCheapestThatMovesLessOfTheCollectivesValues) {
  const Compiled step = CompileText(kStepProgram);
  Explanation all = Explain(step.program);
  all.search = CheaperLayouts(step.global, step.program, {}, {.most = 16});
  const std::vector<std::optional<CheapestChange>> changes = CheapestChanges(all);
  ASSERT_EQ(changes.size(), 2u);
  ASSERT_TRUE(changes[0].has_value());
  EXPECT_EQ(all.search.changes[changes[0]->change].value, "%y");
  EXPECT_EQ(changes[0]->before.bytes, 192000);
  EXPECT_EQ(changes[0]->after.bytes, 96000);
  // Nothing makes the sum of four bytes cheaper.
  EXPECT_FALSE(changes[1].has_value());
}

// The collectives of the explanation, each with its place in a drawing, also those of a bucket and in loops.
TEST(ReportJsonTest, HasEveryCollectiveOfTheExplanation) {
  for (std::string_view text : {kStepProgram, kLoopProgram}) {
    const Compiled compiled = CompileText(text);
    const json report = json::parse(ReportJson(compiled.global, compiled.program));
    const Explanation all = Explain(compiled.program);
    ASSERT_EQ(report["collectives"].size(), all.collectives.size());
    std::set<size_t> spans;
    for (const json& span : report["times"]["spans"])
      if (span[7] >= 0) spans.insert(span[7].get<size_t>());
    for (size_t i = 0; i < all.collectives.size(); ++i) {
      const json& c = report["collectives"][i];
      EXPECT_EQ(c["op"], all.collectives[i].op);
      EXPECT_EQ(c["axes"], all.collectives[i].axes);
      EXPECT_EQ(c["bytes"], all.collectives[i].bytes);
      EXPECT_EQ(c["times"], all.collectives[i].times);
      ASSERT_EQ(c["values"].size(), all.collectives[i].values.size());
      for (size_t v = 0; v < c["values"].size(); ++v) {
        EXPECT_EQ(c["values"][v]["cause"], all.collectives[i].values[v].cause);
        EXPECT_EQ(c["values"][v]["line"], all.collectives[i].values[v].location);
        EXPECT_THAT(c["values"][v]["makers"], Not(IsEmpty()));
        EXPECT_THAT(c["values"][v]["readers"], Not(IsEmpty()));
      }
      const json& vertex =
          report["drawings"][c["drawing"].get<size_t>()]["vertices"][c["vertex"].get<size_t>()];
      EXPECT_EQ(vertex["collective"], i);
      EXPECT_TRUE(spans.contains(i)) << i;
    }
  }
}

// The simulation takes the dearer branch. The span belongs to the collective of that branch, also if both branches have
// a collective of the same op and line.
TEST(ReportJsonTest, ASpanOfABranchIsTheCollectiveOfThatBranch) {
  constexpr std::string_view kCheap =
      "(%a: f32[8,8] {_,x}, %b: f32[8,8] {x,_}) { %m = matmul %a, %b return %m }";
  constexpr std::string_view kDear =
      "(%a: f32[8,8] {_,x}, %b: f32[8,8] {x,_}) { %m = matmul %a, %b %n = exp %m return %n }";
  for (const bool dear_is_first : {true, false}) {
    const Compiled step = CompileText(
        fmt::format("mesh [x=4]\nfunc step(%p: bool[], %a: f32[8,8] {{_,x}}, %b: f32[8,8] {{x,_}}) {{\n"
                    "%y = if %p, %a, %b {} else {}\nreturn y=%y }}",
                    dear_is_first ? kDear : kCheap, dear_is_first ? kCheap : kDear));
    ASSERT_EQ(Explain(step.program).collectives.size(), 2u);
    const json report = json::parse(ReportJson(step.global, step.program));
    std::vector<int> collectives;
    for (const json& span : report["times"]["spans"])
      if (span[7] >= 0) collectives.push_back(span[7].get<int>());
    EXPECT_THAT(collectives, ElementsAre(dear_is_first ? 0 : 1));
  }
}

// 2^80 turns cannot be counted: the count stops at its maximum.
TEST(ReportJsonTest, TurnsThatCannotBeCountedAreAsManyAsCan) {
  const Compiled loops = CompileText(R"(mesh [x=2]
func f(%a: f32[8,8] {_,x}, %s: f32[8,8] {x,_}) {
  %y = scan %s, %a length=1099511627776 (var %c: f32[8,8] {x,_}, %a: f32[8,8] {_,x}) {
    %z = scan %c, %a length=1099511627776 (var %d: f32[8,8] {x,_}, %a: f32[8,8] {_,x}) {
      %m = matmul %a, %d
      update %d = %m
    }
    update %c = %z
  }
  return y=%y
})");
  const json report = json::parse(ReportJson(loops.global, loops.program, {.alternatives = 0}));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(report["drawings"].back()["times"], kMost);
  EXPECT_EQ(report["collectives"][0]["times"], kMost);
  EXPECT_EQ(report["cost"]["bytes"], kMost);
}

TEST(ReportJsonTest, HasCostsMemoryAndProof) {
  const Compiled step = CompileText(kStepProgram);
  const json report = json::parse(ReportJson(step.global, step.program));
  EXPECT_EQ(report["mesh"], "[batch=2, model=4]");
  EXPECT_EQ(report["devices"], 8);
  EXPECT_EQ(report["cost"]["bytes"], 192004);
  EXPECT_EQ(report["peak"]["bytes"], 606000);
  EXPECT_EQ(report["peak"]["largest"][0]["value"],
            "var %w: f32[175,500] of f32[700,500] {model,_} (step.mw:3)");
  EXPECT_EQ(report["proof"]["holds"], true);
  EXPECT_EQ(report["decisions"].size(), step.program.decisions.size());
  int64_t most = 0;
  for (const json& at : report["times"]["memory"]) most = std::max(most, at[1].get<int64_t>());
  EXPECT_EQ(most, 606000);
  EXPECT_EQ(report["alternatives"]["changes"][0]["value"], "%y");
  EXPECT_FALSE(report["cost"].contains("seconds"));  // no machine was given
}

TEST(ReportJsonTest, SaysWhatIsNotProven) {
  const Compiled step = CompileText(kStepProgram);
  Program wrong = step.program;
  wrong.body.ClearOutputs();
  wrong.body.AddOutput({"y", step.program.body.arguments()[0].value});
  const json report = json::parse(ReportJson(step.global, wrong, {.alternatives = 0}));
  EXPECT_EQ(report["proof"]["holds"], false);
  EXPECT_THAT(report["proof"]["text"].get<std::string>(), Not(IsEmpty()));
  EXPECT_EQ(report["collectives"].size(), Explain(wrong).collectives.size());  // of the local program
}

std::string DataOf(std::string_view html) {
  constexpr std::string_view kBegin = "<script type=\"application/json\" id=\"data\">", kEnd = "</script>";
  const size_t begin = html.find(kBegin) + kBegin.size();
  return std::string(html.substr(begin, html.find(kEnd, begin) - begin));
}

TEST(HtmlReportTest, NamesThatAreMarkupStayText) {
  const std::string file = "a\"b'</script><!--<script>&amp;\n.mw";
  Compiled step = CompileText(kStepProgram, file);
  step.global.name = step.program.body.name = "<b>&";
  const HtmlReportOptions options = {.alternatives = 0};
  const std::string html = HtmlReport(step.global, step.program, options);
  const json data = json::parse(DataOf(html));
  EXPECT_EQ(data["program"], "<b>&");
  EXPECT_EQ(data["collectives"][0]["values"][0]["line"], file + ":4");
  EXPECT_EQ(data, json::parse(ReportJson(step.global, step.program, options)));
  EXPECT_THAT(html, HasSubstr("<title>&lt;b&gt;&amp; on mesh [batch=2, model=4]</title>"));
  EXPECT_THAT(html, Not(HasSubstr("<b>")));
}

TEST(HtmlReportTest, BytesThatAreNoTextAreReplaced) {
  Compiled step = CompileText(kStepProgram, "\xff.mw");
  const json data = json::parse(DataOf(HtmlReport(step.global, step.program, {.alternatives = 0})));
  EXPECT_EQ(data["collectives"][0]["values"][0]["line"], "\xef\xbf\xbd.mw:4");
}

// The page has no URLs but those of XML namespaces, and all placeholders are filled in.
TEST(HtmlReportTest, NeedsNoNetwork) {
  const Compiled step = CompileText(kStepProgram);
  std::string html = HtmlReport(step.global, step.program);
  constexpr std::string_view kNamespace = "http://www.w3.org/2000/svg";
  for (size_t at; (at = html.find(kNamespace)) != std::string::npos;) html.erase(at, kNamespace.size());
  EXPECT_THAT(html, AllOf(Not(HasSubstr("http:")), Not(HasSubstr("https:")), Not(HasSubstr("src=")),
                          Not(HasSubstr("@import")), Not(HasSubstr("{{")), HasSubstr("default-src 'none'")));
}

TEST(HtmlReportTest, IsTheSameEachTime) {
  const Compiled step = CompileText(kStepProgram);
  EXPECT_EQ(HtmlReport(step.global, step.program), HtmlReport(step.global, step.program));
}

// A page with thousands of ops: about a kilobyte for each, and nothing quadratic in their number.
TEST(HtmlReportTest, ALongProgramGivesAPageThatABrowserOpens) {
  const Compiled small = CompileText(LongProgram(8)), large = CompileText(LongProgram(64));
  const size_t eight = HtmlReport(small.global, small.program, {.alternatives = 0}).size();
  const size_t all = HtmlReport(large.global, large.program, {.alternatives = 0}).size();
  EXPECT_THAT(all, AllOf(Ge(eight), Lt(9 * eight)));
  EXPECT_LT(all, large.program.body.nodes().size() * 1500 + 100'000);
}

}  // namespace
}  // namespace meshwork::report_test
