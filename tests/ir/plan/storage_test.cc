#include "meshwork/ir/plan/storage.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork/ir/text.h"

namespace meshwork::storage_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// The values that lie in the memory of another value, by name.
std::map<std::string, std::string> WrittenOver(std::string_view text,
                                               const SameCopies& same_copies = nullptr) {
  const Graph graph = ParseGraph(text).value();
  const std::vector<ValueId> storages = PlanStorages(graph, same_copies);
  const std::vector<std::string> names = ValueNames(graph);
  std::map<std::string, std::string> over;
  for (size_t v = 0; v < storages.size(); ++v) {
    EXPECT_EQ(storages[storages[v]], storages[v]);
    if (storages[v] != static_cast<ValueId>(v)) over[names[v]] = names[storages[v]];
  }
  return over;
}

TEST(StorageTest, AChainLiesInOneMemory) {
  EXPECT_THAT(WrittenOver("mesh [] func f(%x: f32[4]) { %a = exp %x %b = tanh %a %c = neg %b return %c }"),
              ElementsAre(Pair("%b", "%a"), Pair("%c", "%a")));
}

TEST(StorageTest, InputsAreNotWritten) {
  EXPECT_THAT(WrittenOver("mesh [] func f(%x: f32[4]) { %a = exp %x return %a }"), IsEmpty());
}

TEST(StorageTest, WhatIsReadLaterOrGivenOutStays) {
  EXPECT_THAT(
      WrittenOver("mesh [] func f(%x: f32[4]) { %a = exp %x %b = tanh %a %c = mul %b, %a return %c }"),
      ElementsAre(Pair("%c", "%b")));
  EXPECT_THAT(WrittenOver("mesh [] func f(%x: f32[4]) { %a = exp %x %b = tanh %a return %a, %b }"),
              IsEmpty());
}

TEST(StorageTest, TypesMustAgreeAndAnOperandBeReadOnce) {
  EXPECT_THAT(WrittenOver("mesh [] func f(%x: f32[4]) { %a = exp %x %b = cast %a dtype=f64 return %b }"),
              IsEmpty());
  EXPECT_THAT(WrittenOver("mesh [] func f(%x: f32[4]) { %a = exp %x %b = mul %a, %a return %b }"), IsEmpty());
}

TEST(StorageTest, ANewValueLiesInItsVariableOnceTheOldOneIsRead) {
  EXPECT_THAT(WrittenOver("mesh [] func f(var %w: f32[4]) { %n = neg %w update %w = %n }"),
              ElementsAre(Pair("%n", "%w")));
  EXPECT_THAT(
      WrittenOver("mesh [] func f(var %w: f32[4]) { %n = neg %w %y = exp %w update %w = %n return %y }"),
      IsEmpty());
  EXPECT_THAT(WrittenOver("mesh [] func f(var %w: f32[4]) { %n = neg %w update %w = %n return %w }"),
              IsEmpty());
}

TEST(StorageTest, AViewIsWhatItIsAViewOf) {
  // Read after another reader, before one, and through one another.
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(%x: f32[4]) {
    %a = exp %x %v = reshape %a shape=[2,2] %w = expand_dims %v dims=[0] %b = tanh %w %c = neg %a return %b, %c })"),
              ElementsAre(Pair("%c", "%a"), Pair("%v", "%a"), Pair("%w", "%a")));
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(%x: f32[4]) {
    %v = reshape %x shape=[2,2] %b = tanh %v return %b })"),
              ElementsAre(Pair("%v", "%x")));
}

TEST(StorageTest, WhatAViewStillReadsIsNotWrittenOver) {
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(%x: f32[4]) {
    %a = exp %x %v = reshape %a shape=[2,2] %b = tanh %a %c = neg %v return %b, %c })"),
              ElementsAre(Pair("%c", "%a"), Pair("%v", "%a")));
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(%x: f32[4]) {
    %a = exp %x %v = reshape %a shape=[2,2] %b = tanh %a return %b, %v })"),
              ElementsAre(Pair("%v", "%a")));
  // A node that reads both.
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(%x: f32[4]) {
    %a = exp %x %v = reshape %a shape=[4] %b = mul %a, %v return %b })"),
              ElementsAre(Pair("%v", "%a")));
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(var %w: f32[4]) {
    %v = reshape %w shape=[2,2] %n = neg %w %b = exp %v update %w = %n return %b })"),
              ElementsAre(Pair("%v", "%w")));
}

TEST(StorageTest, AViewThatIsTheNewValueLiesInTheVariable) {
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(var %w: f32[4]) {
    %v = reshape %w shape=[2,2] %n = neg %v %u = reshape %n shape=[4] update %w = %u })"),
              ElementsAre(Pair("%n", "%w"), Pair("%u", "%w"), Pair("%v", "%w")));
}

TEST(StorageTest, NoViewOfAnArgumentIsGivenOut) {
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(var %w: f32[4]) {
    %v = reshape %w shape=[2,2] %n = neg %w update %w = %n return %v })"),
              ElementsAre(Pair("%n", "%w")));
  EXPECT_THAT(WrittenOver(R"(mesh [] func f(var %w: f32[4], var %k: f32[2,2]) {
    %v = reshape %w shape=[2,2] %n = neg %w update %w = %n update %k = %v })"),
              ElementsAre(Pair("%n", "%w"), Pair("%v", "%k")));
}

TEST(StorageTest, OnlyAsManyCopiesAreWrittenOver) {
  constexpr std::string_view kChain =
      "mesh [] func f(%x: f32[4], var %w: f32[4]) { %a = exp %x %b = tanh %a update %w = %b }";
  EXPECT_THAT(WrittenOver(kChain), ElementsAre(Pair("%b", "%w")));
  EXPECT_THAT(WrittenOver(kChain, [](ValueId, ValueId) { return false; }), IsEmpty());
}

TEST(StorageTest, VariablesThatSwapAreSetAside) {
  const Graph graph = ParseGraph(R"(mesh []
func f(var %v: f32[4], var %w: f32[4], var %u: f32[4], var %k: f32[4]) {
  %n = neg %u
  update %v = %w
  update %w = %v
  update %u = %n
  update %k = %k
})")
                          .value();
  EXPECT_THAT(SetAside(graph), ElementsAre(true, true, false, false));
}

}  // namespace
}  // namespace meshwork::storage_test
