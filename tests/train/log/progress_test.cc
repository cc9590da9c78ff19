#include "meshwork/train/log/progress.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace meshwork::progress_test {
namespace {

// A file, and a clock that the test sets.
class ProgressTest : public testing::Test {
 protected:
  ~ProgressTest() override { std::fclose(out_); }

  ProgressReporterOptions Options(bool is_tty, int64_t epochs, int64_t steps) {
    return {.is_tty = is_tty, .epochs = epochs, .steps_per_epoch = steps, .seconds = [this] { return now_; }};
  }
  // Returns the text written since the last call.
  std::string Written() {
    std::fflush(out_);
    std::fseek(out_, read_, SEEK_SET);
    std::string text;
    for (int c = std::fgetc(out_); c != EOF; c = std::fgetc(out_)) text += static_cast<char>(c);
    read_ += static_cast<long>(text.size());
    return text;
  }

  FILE* out_ = std::tmpfile();
  double now_ = 1000;

 private:
  long read_ = 0;
};

// Another process made two steps of the epoch; its time does not count.
TEST_F(ProgressTest, GoesOnInTheMiddleOfAnEpoch) {
  for (const bool is_tty : {false, true}) {
    ProgressReporter progress(out_, Options(is_tty, 2, 4));
    progress.BeginEpoch(0);
    progress.Resume(2, 200, /*loss=*/4, /*accuracy=*/0.5);
    for (int step = 0; step < 2; ++step) {
      now_ += 0.2;
      progress.Step(50, 2, 1.0);
    }
    const std::string written = Written();
    if (is_tty)
      EXPECT_NE(written.find("3/4  200.0 ms/step  loss 3.6000  accuracy 60.00 %  ETA 0:01"),
                std::string::npos)
          << written;
    else EXPECT_EQ(written, "");
    progress.EndEpoch();
    EXPECT_NE(Written().find("epoch 1/2  4 steps  200.0 ms/step  loss 3.3333  accuracy 66.67 %"),
              std::string::npos);
    progress.BeginEpoch(1);
    now_ += 0.2;
    progress.Step(50, 2, 1.0);
    progress.EndEpoch();
    EXPECT_NE(Written().find("epoch 2/2  1 steps  200.0 ms/step  loss 2.0000  accuracy 100.00 %"),
              std::string::npos);
  }
}

TEST_F(ProgressTest, WritesOneLinePerEpochToAFile) {
  ProgressReporter progress(out_, Options(/*is_tty=*/false, 2, 3));
  const auto steps = [&] {
    for (int64_t examples : {128, 128, 44}) {
      now_ += 0.004;
      progress.Step(examples, examples == 44 ? 2.5 : 0.5, examples == 44 ? 0.0 : 1.0);
    }
  };
  progress.BeginEpoch(0);
  steps();
  EXPECT_EQ(Written(), "");
  progress.EndEpoch();
  EXPECT_EQ(Written(), "epoch 1/2  3 steps  4.00 ms/step  loss 0.7933  accuracy 85.33 %\n");
  now_ += 100;
  progress.BeginEpoch(1);
  steps();
  now_ += 10;  // evaluation
  progress.EndEpoch("test accuracy 95.20 %");
  EXPECT_EQ(Written(),
            "epoch 2/2  3 steps  4.00 ms/step  loss 0.7933  accuracy 85.33 %  test accuracy 95.20 %\n");
}

TEST_F(ProgressTest, DrawsALiveLineOnATerminal) {
  ProgressReporter progress(out_, Options(/*is_tty=*/true, 2, 4));
  progress.BeginEpoch(0);
  EXPECT_EQ(Written(), "\repoch 1/2 [>                   ] 0/4\x1b[K");
  now_ += 2;
  progress.Step(100, 0.5, 0.75);
  EXPECT_EQ(Written(),
            "\repoch 1/2 [=>    ] 1/4  2000.0 ms/step  loss 0.5000  accuracy 75.00 %  ETA 0:14\x1b[K");
  now_ += 2;
  progress.Step(100, 0.5);
  EXPECT_EQ(Written(), "\repoch 1/2 [==========>         ] 2/4  2000.0 ms/step  loss 0.5000  ETA 0:12\x1b[K");
  now_ += 2;
  progress.Step(100, 0.5);
  now_ += 2;
  progress.Step(100, 0.5);
  EXPECT_EQ(Written(),
            "\repoch 1/2 [===============>    ] 3/4  2000.0 ms/step  loss 0.5000  ETA 0:10\x1b[K"
            "\repoch 1/2 [====================] 4/4  2000.0 ms/step  loss 0.5000  ETA 0:08\x1b[K");
  progress.EndEpoch();
  EXPECT_EQ(Written(), "\repoch 1/2  4 steps  2000.0 ms/step  loss 0.5000\x1b[K\n");
  now_ += 1000;
  progress.BeginEpoch(1);
  EXPECT_EQ(Written(), "\repoch 2/2 [>                   ] 0/4  ETA 0:08\x1b[K");
}

TEST_F(ProgressTest, DrawsAtMostTenTimesASecond) {
  ProgressReporter progress(out_, Options(/*is_tty=*/true, 1, 1000));
  progress.BeginEpoch(0);
  Written();
  int drawn = 0;
  for (int i = 0; i < 1000; ++i) {
    now_ += 0.001953125;  // 1/512 s
    progress.Step(1, 1);
    if (!Written().empty()) ++drawn;
  }
  EXPECT_EQ(drawn, 19);  // every 52 steps
}

TEST_F(ProgressTest, FitsTheLiveLineIntoTheTerminal) {
  const struct {
    int columns;
    std::string_view line;
  } cases[] = {
      {100, "epoch 1/1 [>                   ] 0/4"},
      {37, "epoch 1/1 [>                   ] 0/4"},
      {36, "epoch 1/1 [>                  ] 0/4"},
      {21, "epoch 1/1 [>   ] 0/4"},
      {20, "epoch 1/1 0/4"},
      {14, "epoch 1/1 0/4"},
      {13, "epoch 1/1 0/"},
      {1, ""},
      {0, ""},
      {-1, ""},
  };
  for (const auto& [columns, line] : cases) {
    ProgressReporterOptions options = Options(/*is_tty=*/true, 1, 4);
    options.columns = columns;
    ProgressReporter progress(out_, options);
    progress.BeginEpoch(0);
    EXPECT_EQ(Written(), fmt::format("\r{}\x1b[K", line));
    progress.EndEpoch();
    Written();
  }
}

TEST_F(ProgressTest, LeavesTheTerminalOnAFreshLine) {
  auto progress = std::make_unique<ProgressReporter>(out_, Options(/*is_tty=*/true, 1, 4));
  progress->BeginEpoch(0);
  Written();
  progress.reset();
  EXPECT_EQ(Written(), "\n");

  progress = std::make_unique<ProgressReporter>(out_, Options(/*is_tty=*/true, 1, 4));
  progress->BeginEpoch(0);
  progress->EndEpoch();
  Written();
  progress.reset();
  EXPECT_EQ(Written(), "");
}

TEST_F(ProgressTest, KnowsNoBarWithoutTheNumberOfSteps) {
  ProgressReporter progress(out_, Options(/*is_tty=*/true, 3, 0));
  progress.BeginEpoch(1);
  now_ += 1;
  progress.Step(10, 2);
  EXPECT_EQ(Written(), "\repoch 2/3  0 steps\x1b[K\repoch 2/3  1 steps  1000.0 ms/step  loss 2.0000\x1b[K");
}

TEST_F(ProgressTest, SurvivesMoreStepsThanAnnouncedAndOddNumbers) {
  ProgressReporter progress(out_, Options(/*is_tty=*/true, 1, 1));
  progress.BeginEpoch(0);
  now_ += 7384;
  progress.Step(1, 1e-7);
  now_ += 7384;
  progress.Step(1, NAN, NAN);
  EXPECT_EQ(Written(),
            "\repoch 1/1 [>                   ] 0/1\x1b[K"
            "\repoch 1/1 [==================] 1/1  7384000.0 ms/step  loss 1.000e-07  ETA 0:00\x1b[K"
            "\repoch 1/1 [========] 2/1  7384000.0 ms/step  loss nan  accuracy nan %  ETA 0:00\x1b[K");
  progress.EndEpoch();
  EXPECT_EQ(Written(), "\repoch 1/1  2 steps  7384000.0 ms/step  loss nan  accuracy nan %\x1b[K\n");

  ProgressReporter idle(out_, Options(/*is_tty=*/false, 1, 5));
  idle.BeginEpoch(0);
  idle.EndEpoch();
  idle.BeginEpoch(0);
  idle.Step(0, 1);
  idle.EndEpoch();
  EXPECT_EQ(Written(), "epoch 1/1  0 steps\nepoch 1/1  1 steps  0.00 ms/step\n");
}

TEST_F(ProgressTest, ShowsHours) {
  ProgressReporter progress(out_, Options(/*is_tty=*/true, 2, 2));
  progress.BeginEpoch(0);
  Written();
  now_ += 3723;
  progress.Step(1, 1);
  EXPECT_EQ(Written(),
            "\repoch 1/2 [=========>        ] 1/2  3723000.0 ms/step  loss 1.0000  ETA 3:06:09\x1b[K");
}

TEST_F(ProgressTest, FindsOutTheWidthOfATerminal) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
    GTEST_SKIP() << "no pseudo-terminals";
  const winsize size = {.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal, TIOCSWINSZ, &size), 0);
  FILE* out = std::fopen(ptsname(terminal), "w");
  ASSERT_NE(out, nullptr);
  {
    ProgressReporter progress = ProgressReporter::For(out, 1, 1000000000);
    progress.BeginEpoch(0);
    const std::string_view expected = "\repoch 1/1 0/1000000\x1b[K";
    std::string line(expected.size(), '\0');
    EXPECT_EQ(read(terminal, line.data(), line.size()), static_cast<ssize_t>(expected.size()));
    EXPECT_EQ(line, expected);
  }
  std::fclose(out);
  close(terminal);
}

TEST_F(ProgressTest, AFileIsNoTerminal) {
  ProgressReporter progress = ProgressReporter::For(out_, 1, 2);
  progress.BeginEpoch(0);
  EXPECT_EQ(Written(), "");
  progress.EndEpoch();
  EXPECT_EQ(Written(), "epoch 1/1  0 steps\n");
}

}  // namespace
}  // namespace meshwork::progress_test
