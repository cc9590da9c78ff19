#include "docs/served_picture.h"

#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "meshwork.h"

namespace meshwork::docs {
namespace {

constexpr int64_t kWorkers = 3, kServers = 2;
const SvgStyle kCrossing = {.stroke = Paint::kMuted, .width = 1.5};
const SvgFont kCrossingNote = {.paint = Paint::kMuted};
const SvgFont kMiddleNote = {.anchor = Anchor::kMiddle, .paint = Paint::kMuted};

TrainingSplit SplitOfClassifier() {
  Graph graph(Mesh::VirtualCpus("device=1").value());
  const Value images = graph.Input("image", F32, {64, 784}), labels = graph.Input("label", I32, {64});
  const Dense hidden(graph, "hidden", 784, 128), scores(graph, "scores", 128, 10);
  const Value loss = SparseSoftmaxCrossEntropy(scores(Relu(hidden(images))), labels);
  Adam({}).Minimize(loss);
  graph.Output("loss", loss);
  return SplitTraining(graph,
                       {.num_servers = kServers,
                        .partitioner = MinSizePartitioner({.min_shard_bytes = 16 << 10, .max_shards = 2})})
      .value();
}

// A process: its name, and what it does or has.
void DrawProcess(Svg& svg, const SvgBox& box, Paint paint, std::string_view name,
                 const std::vector<std::string>& lines, bool is_code = false) {
  svg.Rect(box, {.fill = paint, .opacity = 0.3, .stroke = Paint::kInk}, 6);
  const double middle = box.x + box.width / 2;
  svg.Text({middle, box.y + 20}, name, {.anchor = Anchor::kMiddle, .size = 13, .bold = true});
  double y = box.y + 38;
  for (const std::string& line : lines) {
    svg.Text({middle, y}, line, {.anchor = Anchor::kMiddle, .size = is_code ? 11.0 : 12.0, .mono = is_code});
    y += 15;
  }
}

// "407.3 KB".
std::string Kilobytes(int64_t bytes) { return fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1000); }

}  // namespace

Svg DrawParameterServers() {
  const TrainingSplit split = SplitOfClassifier();
  int64_t pulled = 0, pushed = 0;
  std::vector<std::vector<std::string>> pieces(kServers);
  for (const VariablePiece& piece : split.pieces) {
    if (!piece.is_read) continue;
    pulled += piece.type.bytes();
    pieces[static_cast<size_t>(piece.server)].push_back(
        fmt::format("{} {}", piece.name, ShapeToString(piece.type.shape)));
  }
  for (const PushedRows& rows : split.pushed) pushed += rows.type.bytes();
  for (std::vector<std::string>& lines : pieces) lines.emplace_back("and Adam's moments of these");

  Svg svg(
      800, 490, "A chief, three workers, two parameter servers and an evaluator",
      "The chief sends closures to the workers: each makes one step. A worker pulls values from all servers and pushes "
      "gradients to them. Servers write checkpoints when the chief asks them to. An evaluator reads the snapshots that the "
      "chief saves.");
  constexpr double kChief = 370, kWorkerTop = 150, kWorkerBottom = 206, kBand = 252, kServerTop = 332;
  DrawProcess(svg, {kChief - 110, 20, 220, 66}, SeriesPaint(0), "chief",
              {"Fit: which steps are to be made,", "by whom"});

  // Snapshots, and the evaluator.
  DrawProcess(svg, {660, 20, 120, 66}, SeriesPaint(4), "evaluator", {"evaluates them"});
  svg.Arrow({kChief + 110, 53}, {655, 53}, kCrossing);
  svg.Text({568, 44}, "snapshots, through", kMiddleNote);
  svg.Text({568, 70}, "a folder", kMiddleNote);

  // Closures.
  for (int64_t w = 0; w < kWorkers; ++w) {
    const double x = kChief + 210 * static_cast<double>(w - 1);
    const double from = kChief + 60 * static_cast<double>(w - 1);
    DrawProcess(svg, {x - 75, kWorkerTop, 150, kWorkerBottom - kWorkerTop}, SeriesPaint(2),
                fmt::format("worker {}", w), {"its batches; gradients"});
    svg.Arrow({from - 7, 90}, {x - 7, kWorkerTop - 4}, kCrossing);
    svg.Arrow({x + 7, kWorkerTop - 4}, {from + 7, 90}, kCrossing);
    svg.Arrow({x - 7, kWorkerBottom + 4}, {x - 7, kBand - 4}, kCrossing);
    svg.Arrow({x + 7, kBand - 4}, {x + 7, kWorkerBottom + 4}, kCrossing);
  }
  svg.Text({70, 116}, "closures: step 7, 8, …", kCrossingNote);
  svg.Text({528, 116}, "outputs: the loss", kCrossingNote);

  // Each worker and each server.
  svg.Rect({70, kBand, 600, 36}, {.stroke = Paint::kMuted, .width = 1.5, .dashed = true}, 9);
  svg.Text({kChief, kBand + 23},
           fmt::format("each step, with each server:  pull values, {} in all  ·  push gradients, {}",
                       Kilobytes(pulled), Kilobytes(pushed)),
           {.anchor = Anchor::kMiddle});
  for (int64_t s = 0; s < kServers; ++s) {
    const double x = 180 + 370 * static_cast<double>(s);
    DrawProcess(svg, {x - 130, kServerTop, 260, 100}, SeriesPaint(1), fmt::format("parameter server {}", s),
                pieces[static_cast<size_t>(s)], /*is_code=*/true);
    svg.Arrow({x - 7, kBand + 40}, {x - 7, kServerTop - 4}, kCrossing);
    svg.Arrow({x + 7, kServerTop - 4}, {x + 7, kBand + 40}, kCrossing);
    svg.Rect({x + 150, kServerTop + 28, 84, 44}, {.stroke = Paint::kMuted, .width = 1.5, .dashed = true}, 6);
    svg.Text({x + 192, kServerTop + 47}, "checkpoints", kMiddleNote);
    svg.Text({x + 192, kServerTop + 62}, "on its disk", kMiddleNote);
    svg.Arrow({x + 133, kServerTop + 50}, {x + 147, kServerTop + 50}, kCrossing);
  }

  // From the chief to the servers.
  constexpr double kLeft = 24, kBelow = 474;
  svg.Line({kChief - 110, 53}, {kLeft, 53}, kCrossing);
  svg.Line({kLeft, 53}, {kLeft, kBelow}, kCrossing);
  svg.Line({kLeft, kBelow}, {550, kBelow}, kCrossing);
  for (const double x : {180.0, 550.0}) svg.Arrow({x, kBelow}, {x, kServerTop + 104}, kCrossing);
  svg.Text({365, kBelow - 9}, "which steps have you applied? and now and then: save", kMiddleNote);
  return svg;
}

}  // namespace meshwork::docs
