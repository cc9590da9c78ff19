// What is said of bytes that are no trace.
#include "meshwork/runtime/exec/trace.h"

#include <string>

#include "errors/errors.h"
#include "gtest/gtest.h"

namespace meshwork::trace_test {
namespace {

TEST(TraceErrors, Decode) {
  const Trace step{.name = "step",
                   .tracks = {{TraceTrack::Kind::kSteps, 0, "steps"}},
                   .labels = {{"step 7", "step"}},
                   .events = {{0, 0, 7, 0, 3000}}};
  auto with_track = [&](int track) {
    Trace other = step;
    other.events[0].track = track;
    return other.Encode();
  };
  auto half = [&] { return step.Encode().substr(0, step.Encode().size() / 2); };
  ExpectErrors("trace", {
                            MISTAKE(Trace::Decode("")),
                            MISTAKE(Trace::Decode(half())),
                            MISTAKE(Trace::Decode(step.Encode() + "more")),
                            MISTAKE(Trace::Decode(with_track(1))),
                        });
}

}  // namespace
}  // namespace meshwork::trace_test
