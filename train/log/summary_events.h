// The Event messages of summaries, which SummaryWriter writes (train/log/summary_writer.h): protocol buffers as
// tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto define them, in the forms that
// TensorBoard's plugins read. Pure functions, thread-safe. REQUIRES, of all: tags and texts are UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/log/images.h"

namespace meshwork {

// The time and the step of a summary; wall_time: seconds since 1970.
struct EventTime {
  double wall_time = 0;
  int64_t step = 0;
};

// The first event of a file.
std::string VersionEvent(double wall_time);
inline constexpr int64_t kSessionStart = 1;  // SessionLog.status
// Voids what earlier files say of time.step and later steps.
std::string RestartEvent(const EventTime& time);
std::string ScalarEvent(const EventTime& time, std::string_view tag, double value);
std::string ImageEvent(const EventTime& time, std::string_view tag, const std::vector<Image>& images);
std::string TextEvent(const EventTime& time, std::string_view tag, std::string_view markdown);
std::string GraphEvent(double wall_time, std::string_view graph_def);

struct Bucket {
  double left = 0, right = 0;
  double count = 0;
};
struct Buckets {
  std::vector<Bucket> buckets;
  int64_t not_finite = 0;  // elements in no bucket
};
// The finite elements in `count` buckets of equal width, each with its left end, the last also with its right end. If
// all of them are one number, the last bucket has them all, and the width is 0. Without an element all is 0. As
// tf.summary.histogram has them (tensorboard/plugins/histogram/summary_v2.py). REQUIRES: tensor.valid(), count >= 1.
Buckets BucketsOf(const Tensor& tensor, int64_t count);
// With the scalar "<tag>/not_finite", if there is such an element.
std::string HistogramEvent(const EventTime& time, std::string_view tag, const Buckets& buckets);

}  // namespace meshwork
