// tests/oracle/check_tensorboard checks how TensorBoard itself reads such files.
#include "meshwork/train/log/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "meshwork/base/io/file.h"
#include "meshwork/storage/record_file.h"
#include "meshwork/train/log/summaries.h"
#include "support/forks.h"
#include "support/full_disk.h"
#include "support/temp_dir.h"

namespace meshwork::summary_writer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<std::string> Texts(const Summaries& log) {
  std::vector<std::string> texts;
  for (const ScalarSummary& s : log.scalars)
    texts.push_back(fmt::format("{} {} {} {}", s.tag, s.step, s.wall_time, s.value));
  return texts;
}

class SummaryWriterTest : public TempDirTest {
 protected:
  SummaryWriter Create(SummaryOptions options = {.flush_seconds = 3600}) {
    return SummaryWriter::Create(Path("run"), std::move(options)).value();
  }
  Summaries Read() { return ReadSummaries(Path("run")).value(); }
};

TEST_F(SummaryWriterTest, WritesEveryKind) {
  double time = 100;
  SummaryWriter log = Create({.wall_time = [&] { return time += 0.5; }});
  Graph graph(Mesh::Parse("x=2").value());
  graph.Output("y", graph.Input("x", F32, {2}, {"x"}));
  EXPECT_TRUE(log.Graph(graph).ok());
  EXPECT_TRUE(log.Scalar("loss", 0.25, 1).ok());
  EXPECT_TRUE(log.Scalar("loss", 1e300, 2).ok());
  EXPECT_TRUE(log.Histogram("w", Tensor::From<float>({3}, {1, NAN, 2}), 3).ok());
  EXPECT_TRUE(log.Image("x", Tensor::Zeros({F32, {2, 3}}), 4).ok());
  EXPECT_TRUE(log.Text("notes", "größer", 5).ok());
  EXPECT_TRUE(log.Close().ok());
  const Summaries read = Read();
  EXPECT_THAT(Texts(read), ElementsAre("loss 1 101.5 0.25", "loss 2 102 inf", "w/not_finite 3 102.5 1"));
  std::vector<std::string> others;
  for (const OtherSummary& o : read.others)
    others.push_back(fmt::format("{} {} {} {}", o.tag, o.plugin, o.step, o.wall_time));
  EXPECT_THAT(others, ElementsAre("w histograms 3 102.5", "x images 4 103", "notes text 5 103.5"));
  EXPECT_EQ(read.graphs, 1);
  EXPECT_THAT(read.cut_short, IsEmpty());
}

// The first events of a file, byte by byte.
TEST_F(SummaryWriterTest, EventsAreProtocolBuffers) {
  SummaryWriter log = Create({.wall_time = [] { return 2.0; }});
  EXPECT_TRUE(log.Scalar("a", 1.5, 3).ok());
  EXPECT_TRUE(log.Close().ok());
  std::string expected;
  AppendRecord(expected, std::string("\x09\0\0\0\0\0\0\0\x40\x1a\x0d"
                                     "brain.Event:2",
                                     24));
  AppendRecord(expected, std::string("\x09\0\0\0\0\0\0\0\x40"    // wall_time
                                     "\x10\x03"                  // step
                                     "\x2a\x0a\x0a\x08\x0a\x01"  // summary { value { tag
                                     "a\x15\0\0\xc0\x3f",        // simple_value
                                     23));
  EXPECT_EQ(ReadFile(log.path()).value(), expected);
}

// The state after a crash at step 7 whose last checkpoint was of step 4.
TEST_F(SummaryWriterTest, AWriterThatGoesOnVoidsTheStepsThatItLogsAgain) {
  double time = 100;
  const auto write = [&](std::optional<int64_t> purge_step, int64_t first, int64_t last) {
    time += 100;
    SummaryWriter log = Create({.purge_step = purge_step, .wall_time = [time] { return time; }});
    for (int64_t step = first; step <= last; ++step) {
      EXPECT_TRUE(log.Scalar("loss", time, step).ok());
      EXPECT_TRUE(log.Text("notes", "x", step).ok());
    }
  };
  write(std::nullopt, 1, 7);
  write(5, 5, 6);
  std::vector<std::string> expected;
  for (int64_t step = 1; step <= 6; ++step)
    expected.push_back(fmt::format("loss {0} {1} {1}", step, step < 5 ? 200 : 300));
  EXPECT_EQ(Texts(Read()), expected);
  EXPECT_THAT(Read().others, SizeIs(6));
  write(0, 0, 0);
  EXPECT_THAT(Texts(Read()), ElementsAre("loss 0 400 400"));
}

TEST_F(SummaryWriterTest, EachWriterHasAFileOfItsOwn) {
  const SummaryWriter a = Create(), b = Create();
  const std::regex name(R"(events\.out\.tfevents\.[0-9]{10}\..+\.[0-9]+\.[0-9]+)");
  std::set<std::string> names;
  for (const SummaryWriter* log : {&a, &b}) {
    const std::filesystem::path path(log->path());
    EXPECT_TRUE(std::regex_match(path.filename().string(), name)) << path;
    EXPECT_EQ(path.parent_path(), Path("run"));
    names.insert(path.filename());
  }
  EXPECT_THAT(names, SizeIs(2));
  EXPECT_EQ(NumFiles(), 1);  // the folder
}

TEST_F(SummaryWriterTest, ThreadsMayLogAtOnce) {
  constexpr int kThreads = 4, kSteps = 500;
  {
    SummaryWriter log = Create({.flush_seconds = 0.001});
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (int step = 0; step < kSteps; ++step) {
          EXPECT_TRUE(log.Scalar(fmt::format("{}", t), step * t, step).ok());
          if (step % 100 == 0) {
            EXPECT_TRUE(log.Flush().ok());
          }
        }
      });
    threads.clear();
  }  // closes
  std::vector<std::vector<ScalarSummary>> by_thread(kThreads);
  for (const ScalarSummary& s : Read().scalars) by_thread[static_cast<size_t>(std::stoi(s.tag))].push_back(s);
  for (int t = 0; t < kThreads; ++t) {
    const auto& values = by_thread[static_cast<size_t>(t)];
    ASSERT_THAT(values, SizeIs(kSteps));
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_EQ(values[static_cast<size_t>(step)].step, step);
      EXPECT_EQ(values[static_cast<size_t>(step)].value, step * t);
    }
  }
}

TEST_F(SummaryWriterTest, FlushShowsWhatWasLogged) {
  SummaryWriter log = Create();
  EXPECT_TRUE(log.Scalar("loss", 1, 1).ok());
  EXPECT_TRUE(log.Flush().ok());
  EXPECT_THAT(Read().scalars, SizeIs(1));
}

TEST_F(SummaryWriterTest, WhatIsLoggedShowsWithoutAFlush) {
  SummaryWriter log = Create({.flush_seconds = 0.01});
  EXPECT_TRUE(log.Scalar("loss", 1, 1).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Read().scalars.empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(Read().scalars, SizeIs(1));
}

// More than a megabyte of events is written without waiting for flush_seconds.
TEST_F(SummaryWriterTest, MuchIsWrittenEarly) {
  SummaryWriter log = Create();
  EXPECT_TRUE(log.Text("notes", std::string(2 << 20, 'x'), 1).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Read().others.empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(Read().others, SizeIs(1));
}

TEST_F(SummaryWriterTest, TrainingGoesOnWhileTheDiskIsFull) {
  SummaryWriter log = Create();
  {
    const FullDisk full(200);
    for (int step = 0; step < 20; ++step) EXPECT_TRUE(log.Scalar("loss", step, step).ok());
    const absl::Status flushed = log.Flush();
    EXPECT_THAT(std::string(MessageOf(flushed)),
                HasSubstr(log.path() + ": cannot be written: File too large"));
    EXPECT_EQ(log.Scalar("loss", 20, 20), flushed);  // is kept all the same
    EXPECT_EQ(log.Flush(), flushed);
  }
  EXPECT_TRUE(log.Flush().ok());
  EXPECT_TRUE(log.Scalar("loss", 21, 21).ok());
  EXPECT_TRUE(log.Close().ok());
  const Summaries read = Read();
  ASSERT_THAT(read.scalars, SizeIs(22));
  for (size_t i = 0; i < 22; ++i) EXPECT_EQ(read.scalars[i].value, static_cast<double>(i));
}

TEST_F(SummaryWriterTest, CloseSaysWhatAFullDiskDidNotTake) {
  SummaryWriter log = Create();
  const FullDisk full(100);
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(log.Scalar("loss", step, step).ok());
  const absl::Status closed = log.Close();
  EXPECT_THAT(std::string(MessageOf(closed)), HasSubstr("The file lacks 3 events."));
  EXPECT_EQ(log.Close(), closed);
}

TEST_F(SummaryWriterTest, MemoryIsBoundedWhileTheDiskIsFull) {
  SummaryWriter log = Create();
  const std::string mebibyte(1 << 20, 'x');
  {
    const FullDisk full(200);
    EXPECT_TRUE(log.Text("notes", mebibyte, 0).ok());
    EXPECT_FALSE(log.Flush().ok());
    for (int step = 1; step < 100; ++step) {
      EXPECT_FALSE(log.Text("notes", mebibyte, step).ok());
      if (step % 10 == 0) {
        EXPECT_FALSE(log.Flush().ok());
      }
    }
  }
  const absl::Status closed = log.Close();
  EXPECT_TRUE(absl::IsDataLoss(closed)) << closed;
  // 63 MiB of events and their framing waited; events logged after the last attempt found room again.
  std::vector<int64_t> kept, expected;
  for (const OtherSummary& other : Read().others) kept.push_back(other.step);
  for (int64_t step = 0; step < 63; ++step) expected.push_back(step);
  for (int64_t step = 91; step < 100; ++step) expected.push_back(step);
  EXPECT_EQ(kept, expected);
  EXPECT_THAT(std::string(MessageOf(closed)), HasSubstr("lacks 28 events"));
}

// Only a disk that fails limits what can be logged.
TEST_F(SummaryWriterTest, NothingIsDroppedWhileTheDiskWorks) {
  SummaryWriter log = Create();
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(log.Text("notes", std::string(70 << 20, 'x'), step).ok());
  EXPECT_TRUE(log.Close().ok());
  EXPECT_THAT(Read().others, SizeIs(3));
}

TEST_F(SummaryWriterTest, TrainingGoesOnWithoutTheFolder) {
  SummaryWriter log = Create();
  std::filesystem::remove_all(Path("run"));
  EXPECT_TRUE(log.Scalar("loss", 1, 1).ok());
  const absl::Status flushed = log.Flush();
  EXPECT_TRUE(absl::IsNotFound(flushed)) << flushed;
  EXPECT_EQ(log.Scalar("loss", 2, 2), flushed);
  EXPECT_THAT(std::string(MessageOf(log.Close())), HasSubstr("The file lacks 2 events."));
}

TEST_F(SummaryWriterTest, AChildOfAForkLeavesTheFileAlone) {
  if (!kMayFork) GTEST_SKIP();
  SummaryWriter log = Create();
  EXPECT_TRUE(log.Scalar("loss", 1, 1).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(StatusOfChild([&] {
    const absl::Status refused = log.Scalar("loss", 2, 2);
    const SummaryWriter dropped = std::move(log);
    return refused;
  })));
  EXPECT_TRUE(log.Close().ok());
  EXPECT_THAT(Read().scalars, SizeIs(1));
}

// ---- Reading.

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

// Written with TensorBoard 2.21's RecordWriter and messages: a scalar as torch writes it, two as tf.summary may, an
// image and a histogram of the older form, a graph.
TEST_F(SummaryWriterTest, ReadsWhatOthersWrite) {
  const std::string file = FromHex(
      "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c1900000000000000"
      "8bf1082809000000000000044010072a0c0a0a0a036f6c64150000803e0b415c142e00000000000000c5cb57fa090000"
      "000000000c4010082a210a1f0a067061636b6564420808012a040000003f4a0b0a090a077363616c61727368b6d65d33"
      "000000000000000ca7205609000000000000124010092a260a240a07636f6e74656e74420c080222089a9999999999b9"
      "3f4a0b0a090a077363616c617273cc5c70596700000000000000baadcdd4090000000000001640100a2a5a0a160a0770"
      "696374757265220b0801100118012203706e670a400a04626172732a3811000000000000f03f19000000000000f03f21"
      "000000000000f03f29000000000000f03f3208000000000000f03f3a08000000000000f03fb289cc8f0b000000000000"
      "008615f504090000000000001a402200bd47b8af");
  const Summaries read = ReadSummaries(File("events.out.tfevents.1", file)).value();
  EXPECT_THAT(Texts(read), ElementsAre("old 7 2.5 0.25", "packed 8 3.5 0.5", "content 9 4.5 0.1"));
  ASSERT_THAT(read.others, SizeIs(2));
  EXPECT_EQ(read.others[0].tag + " " + read.others[0].plugin, "picture images");
  EXPECT_EQ(read.others[1].tag + " " + read.others[1].plugin, "bars histograms");
  EXPECT_EQ(read.graphs, 1);
}

TEST_F(SummaryWriterTest, AFileThatWasCutShortGivesWhatItHas) {
  std::filesystem::create_directory(Path("run"));
  SummaryWriter log = Create();
  for (int step = 0; step < 3; ++step) EXPECT_TRUE(log.Scalar("loss", step, step).ok());
  EXPECT_TRUE(log.Close().ok());
  std::filesystem::resize_file(log.path(), std::filesystem::file_size(log.path()) - 1);
  SummaryWriter later = Create();  // the writer of the resumed training
  EXPECT_TRUE(later.Scalar("loss", 2, 2).ok());
  EXPECT_TRUE(later.Close().ok());
  const Summaries read = Read();
  ASSERT_THAT(read.scalars, SizeIs(3));
  EXPECT_EQ(read.scalars[2].step, 2);
  ASSERT_THAT(read.cut_short, SizeIs(1));
  EXPECT_THAT(read.cut_short[0], HasSubstr(log.path() + ": ends within record 3"));
}

}  // namespace
}  // namespace meshwork::summary_writer_test
