// The profile and the trace of a session, which show its full steps.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "meshwork.h"
#include "train/classifier.h"

namespace meshwork::session_profile_test {
namespace {

using ::testing::HasSubstr;

TEST(SessionTest, ProfilesTheFullSteps) {
  Session session =
      Session::Create(Classifier("batch=2", 6), {.workers = 2, .executor = {.profile = true}}).value();
  for (int64_t rows : {6, 5, 6, 6}) ASSERT_TRUE(session.Run(Examples(rows)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(6)).ok());
  const Profile profile = session.Profile();
  EXPECT_EQ(profile.steps, 3);
  EXPECT_EQ(profile.workers, 2);
  for (const ProfileRow& row : profile.rows) EXPECT_EQ(row.calls, 3) << row.op;
  const auto collective = std::find_if(profile.rows.begin(), profile.rows.end(),
                                       [](const ProfileRow& row) { return row.op.starts_with("all_"); });
  ASSERT_NE(collective, profile.rows.end());
  EXPECT_THAT(collective->where, HasSubstr("classifier.h:"));
  EXPECT_THAT(session.Explain(), HasSubstr(collective->cause.substr(0, collective->cause.find("; "))));
}

TEST(SessionTest, TracesTheLastFullSteps) {
  Session session =
      Session::Create(Classifier("batch=2", 6),
                      {.workers = 2, .executor = {.coalesce = false, .fuse = false, .trace_steps = 2}})
          .value();
  for (int64_t rows : {6, 5, 6, 6}) ASSERT_TRUE(session.Run(Examples(rows)).ok());
  ASSERT_TRUE(session.Evaluate(Examples(6)).ok());
  const Trace trace = session.Trace();
  EXPECT_EQ(trace.name, "step on mesh [batch=2]");
  EXPECT_EQ(trace.tracks.size(), 1u + 2 + 2);
  std::map<std::string, int> collectives, steps;  // how often, on device 1
  for (const TraceEvent& event : trace.events) {
    const TraceLabel& label = trace.labels[event.label];
    if (label.category == "step") ++steps[label.name];
    if (label.category == "collective" && trace.tracks[event.track].name == "device 1 (batch=1)")
      ++collectives[label.name];
  }
  EXPECT_EQ(steps, (std::map<std::string, int>{{"step 1", 1}, {"step 2", 1}}));
  std::map<std::string, int> expected;
  for (const CollectiveSummary& c : SummarizeCollectives(session.program().body))
    expected[c.type] += static_cast<int>(2 * c.count);
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(collectives, expected);
}

TEST(SessionTest, ProfilesNothingUnlessAskedTo) {
  Session session = Session::Create(Classifier("batch=2", 6)).value();
  ASSERT_TRUE(session.Run(Examples(6)).ok());
  EXPECT_EQ(session.Profile().steps, 0);
  EXPECT_TRUE(session.Trace().events.empty());
}

}  // namespace
}  // namespace meshwork::session_profile_test
