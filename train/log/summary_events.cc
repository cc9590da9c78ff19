#include "meshwork/train/log/summary_events.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "meshwork/base/status.h"
#include "meshwork/storage/wire_format.h"

namespace meshwork {
namespace {

constexpr int kDoubleType = 2, kStringType = 7;  // DataType of types.proto

WireWriter Event(const EventTime& time) {
  return std::move(WireWriter().Double(1, time.wall_time).Int(2, time.step));
}

// A Summary.Value whose tensor the plugin reads.
WireWriter PluginValue(std::string_view tag, std::string_view plugin, const WireWriter& tensor) {
  WireWriter metadata;
  metadata.Message(1, WireWriter().Text(1, plugin));
  return std::move(WireWriter().Text(1, tag).Message(9, metadata).Message(8, tensor));
}

WireWriter ScalarValue(std::string_view tag, double value) {
  return std::move(WireWriter().Text(1, tag).Float(2, static_cast<float>(value)));
}

std::string SummaryEvent(const EventTime& time, const WireWriter& value) {
  return Event(time).Message(5, WireWriter().Message(1, value)).bytes();
}

WireWriter ShapeMessage(std::initializer_list<int64_t> sizes) {
  WireWriter shape;
  for (int64_t size : sizes) shape.Message(2, WireWriter().Int(1, size));
  return shape;
}

}  // namespace

std::string VersionEvent(double wall_time) {
  return WireWriter().Double(1, wall_time).Text(3, "brain.Event:2").bytes();
}

std::string RestartEvent(const EventTime& time) {
  return Event(time).Message(7, WireWriter().Int(1, kSessionStart)).bytes();
}

std::string ScalarEvent(const EventTime& time, std::string_view tag, double value) {
  return SummaryEvent(time, ScalarValue(tag, value));
}

std::string ImageEvent(const EventTime& time, std::string_view tag, const std::vector<Image>& images) {
  WireWriter tensor;
  tensor.Int(1, kStringType).Message(2, ShapeMessage({2 + std::ssize(images)}));
  const Image first = images.empty() ? Image() : Image{images[0].height, images[0].width};
  tensor.Text(8, fmt::format("{}", first.width)).Text(8, fmt::format("{}", first.height));
  for (const Image& image : images) tensor.Text(8, EncodePng(image));
  return SummaryEvent(time, PluginValue(tag, "images", tensor));
}

std::string TextEvent(const EventTime& time, std::string_view tag, std::string_view markdown) {
  WireWriter tensor;
  tensor.Int(1, kStringType).Message(2, ShapeMessage({})).Text(8, markdown);
  return SummaryEvent(time, PluginValue(tag, "text", tensor));
}

std::string GraphEvent(double wall_time, std::string_view graph_def) {
  return WireWriter().Double(1, wall_time).Text(4, graph_def).bytes();
}

Buckets BucketsOf(const Tensor& tensor, int64_t count) {
  Buckets result{.buckets = std::vector<Bucket>(static_cast<size_t>(count))};
  double least = std::numeric_limits<double>::infinity(), most = -least;
  const auto for_each = [&](auto&& f) {
    DispatchAny(tensor.dtype(), [&](auto zero) {
      for (auto element : tensor.values<decltype(zero)>()) f(static_cast<double>(element));
    });
  };
  for_each([&](double x) {
    if (!std::isfinite(x)) {
      ++result.not_finite;
      return;
    }
    least = std::min(least, x);
    most = std::max(most, x);
  });
  if (least > most) return result;  // there is no finite element

  const double buckets = static_cast<double>(count);
  // The range of f64 may be more than f64 holds.
  const double scale = std::isfinite(most - least) ? 1 : 0.5;
  const double range = most * scale - least * scale;
  const auto edge = [&](int64_t i) {
    return i == count ? most : (least * scale + range * (static_cast<double>(i) / buckets)) / scale;
  };
  for (int64_t i = 0; i < count; ++i)
    result.buckets[static_cast<size_t>(i)] = range == 0 ? Bucket{most, most} : Bucket{edge(i), edge(i + 1)};
  for_each([&](double x) {
    if (!std::isfinite(x)) return;
    const double place = range == 0 ? buckets : (x * scale - least * scale) / range * buckets;
    ++result.buckets[static_cast<size_t>(std::min(place, buckets - 1))].count;
  });
  return result;
}

std::string HistogramEvent(const EventTime& time, std::string_view tag, const Buckets& buckets) {
  WireWriter tensor;
  tensor.Int(1, kDoubleType).Message(2, ShapeMessage({std::ssize(buckets.buckets), 3}));
  for (const Bucket& bucket : buckets.buckets)
    tensor.Double(6, bucket.left).Double(6, bucket.right).Double(6, bucket.count);
  WireWriter summary;
  summary.Message(1, PluginValue(tag, "histograms", tensor));
  if (buckets.not_finite > 0)
    summary.Message(1,
                    ScalarValue(fmt::format("{}/not_finite", tag), static_cast<double>(buckets.not_finite)));
  return Event(time).Message(5, summary).bytes();
}

}  // namespace meshwork
