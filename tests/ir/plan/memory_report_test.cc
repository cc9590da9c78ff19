#include "meshwork/ir/plan/memory_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/text.h"

namespace meshwork::memory_report_test {
namespace {

Graph Parse(std::string_view text) { return ParseGraph(text, "step.mw").value(); }

std::string Report(std::string_view text, int largest = 5) {
  const Graph graph = Parse(text);
  return PrintMemoryReport(graph, ReportMemory(graph, largest));
}

TEST(MemoryReportTest, SaysWhereThePeakIsAndWhatIsLiveThere) {
  EXPECT_EQ(Report(R"(mesh [x=2]
func step(%x: f32[3,2] of f32[6,2] {x,_}, var %w: f32[3,2] of f32[6,2] {x,_}) {
  %a = reverse %x dims=[1] : f32[3,2] of f32[6,2] {x,_}
  %0 = reverse %x dims=[1] : f32[3,2] of f32[6,2] {x,_}
  %c = concat %a, %0 dim=1 : f32[3,4] of f32[6,4] {x,_}
  return c=%c
})"),
            "120 B per device at concat (step.mw:5), %c; 4 values there:\n"
            "            48 B  %c: f32[3,4] of f32[6,4] {x,_} by concat (step.mw:5)\n"
            "            24 B  var %w: f32[3,2] of f32[6,2] {x,_} (step.mw:2)\n"
            "            24 B  %a: f32[3,2] of f32[6,2] {x,_} by reverse (step.mw:3)\n"
            "            24 B  %0: f32[3,2] of f32[6,2] {x,_} by reverse (step.mw:4)\n");
}

TEST(MemoryReportTest, NamesTheLargest) {
  EXPECT_EQ(
      Report("mesh [] func f(%x: f64[8], %y: f32[2], %z: f64[8]) { %a = concat %x, %z dim=0 return %a, %y }",
             1),
      "264 B per device at concat (step.mw:1), %a; the largest of 4 values there:\n"
      "           128 B  %a: f64[16] by concat (step.mw:1)\n");
}

TEST(MemoryReportTest, WhatIsWrittenInPlaceTakesNothing) {
  // The peak is at exp: x and a; later b and c take a's memory, and x has been read.
  EXPECT_EQ(LogicalPeakBytes(
                Parse("mesh [] func f(%x: f32[4]) { %a = exp %x %b = tanh %a %c = neg %b return %c }")),
            2 * 16);
  EXPECT_EQ(LogicalPeakBytes(Parse("mesh [] func f(var %w: f32[4]) { %n = neg %w update %w = %n }")), 16);
}

TEST(MemoryReportTest, OfValuesInOneMemoryTheLastIsNamed) {
  const Graph graph = Parse(R"(mesh []
func f(%x: f32[2], var %w: f32[8]) {
  %a = broadcast_to %x shape=[4,2] dims=[1]
  %b = exp %a
  %c = concat %b, %b dim=0
  %d = reduce_sum %c dims=[0,1]
  %n = mul %w, %d
  update %w = %n
  return d=%d
})");
  EXPECT_EQ(PrintMemoryReport(graph, ReportMemory(graph)),
            "128 B per device at concat (step.mw:5), %c; 3 values there:\n"
            "            64 B  %c: f32[8,2] by concat (step.mw:5)\n"
            "            32 B  var %w: f32[8] (step.mw:2)\n"
            "            32 B  %b: f32[4,2] by exp (step.mw:4)\n");
}

TEST(MemoryReportTest, NewVariableValuesLiveToTheEnd) {
  // a is written over w; b is read again when c is made, so c gets its own memory.
  EXPECT_EQ(LogicalPeakBytes(Parse(R"(mesh [x=2]
func step(var %w: f32[3,2] of f32[6,2] {x,_}) {
  %a = neg %w : f32[3,2] of f32[6,2] {x,_}
  %b = reverse %a dims=[1] : f32[3,2] of f32[6,2] {x,_}
  %c = reverse %b dims=[1] : f32[3,2] of f32[6,2] {x,_}
  update %w = %a
  return c=%c
})")),
            3 * 24);
}

TEST(MemoryReportTest, VariablesThatSwapAreCopiedAsideAtTheEnd) {
  EXPECT_EQ(Report("mesh [] func f(var %v: f32[4], var %w: f32[4]) { update %v = %w update %w = %v }"),
            "64 B per device at the end of the step; 4 values there:\n"
            "            16 B  var %v: f32[4] (step.mw:1)\n"
            "            16 B  var %v: f32[4] (step.mw:1)\n"
            "            16 B  var %w: f32[4] (step.mw:1)\n"
            "            16 B  var %w: f32[4] (step.mw:1)\n");
}

TEST(MemoryReportTest, BlocksCountWithTheirPadding) {
  // 5 rows over 4 devices are blocks of 2.
  EXPECT_EQ(LogicalPeakBytes(Parse("mesh [x=4] func f(%x: f32[2,3] of f32[5,3] {x,_}) { return %x }")), 24);
}

TEST(MemoryReportTest, OfAProgramThatHoldsNothing) {
  EXPECT_EQ(Report("mesh [] func f() { }"), "0 B per device at the end of the step; 0 values there:\n");
  EXPECT_EQ(Report("mesh [] func f(%x: f32[0]) { return %x }"),
            "0 B per device at the end of the step; 0 values there:\n");
}

}  // namespace
}  // namespace meshwork::memory_report_test
