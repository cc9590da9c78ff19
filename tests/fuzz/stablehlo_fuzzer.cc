// A libFuzzer target: any text, read as StableHLO, gives an error that points at its place, or a program whose own text is read back
// as the same program.
//
// --prepare writes a dictionary; the corpus begins with what JAX has lowered (tests/stablehlo/from_jax).
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "fuzz/fuzzer.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/difference.h"
#include "meshwork/ir/text.h"
#include "meshwork/stablehlo/read/read_stablehlo.h"

namespace meshwork {
namespace {

constexpr std::string_view kWords[] = {"builtin.module",
                                       "func.func",
                                       "func.return",
                                       "stablehlo.return",
                                       "sym_name",
                                       "main",
                                       "tensor<",
                                       "dense<",
                                       "array<i64: ",
                                       "^bb0(",
                                       " : () -> ()",
                                       "<{",
                                       "}> ({",
                                       "loc(",
                                       "#stablehlo.gather<",
                                       "#stablehlo.scatter<",
                                       "#stablehlo.dot<",
                                       "#sdy.sharding<@mesh, [",
                                       "sdy.mesh",
                                       "mhlo.sharding",
                                       "{devices=[2,2]<=[4]}",
                                       "tf.aliasing_output",
                                       "xf32>",
                                       "xi32>",
                                       "xi1>",
                                       "xbf16>",
                                       "xui32>",
                                       "xi64>",
                                       "0x7FC00000",
                                       "comparison_direction"};

}  // namespace

void Try(std::string_view text) {
  const absl::StatusOr<Graph> graph = ReadStableHlo(text);
  if (!graph.ok()) {
    const std::string_view message = MessageOf(graph.status());
    if (!message.starts_with("module:")) Finding("an error without its place", message);
    if (message.size() > 6000) Finding("a very long error", message.substr(0, 3000));
    return;
  }
  const std::string printed = PrintGraph(*graph);
  const absl::StatusOr<Graph> again = ParseGraph(printed);
  if (!again.ok())
    Finding("what is read does not read back", fmt::format("{}\n{}", MessageOf(again.status()), printed));
  if (const std::string difference = FirstDifference(*graph, *again); !difference.empty())
    Finding("a program reads back as another", difference + "\n" + printed);
}

void Prepare(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / "samples");
  std::ofstream words(folder / "words.dict");
  for (const std::string& op : OpsOfStableHlo()) words << fmt::format("\"\\\"{}\\\"(\"\n", op);
  for (const std::string_view word : kWords) {
    std::string escaped;
    for (const char c : word) escaped += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
    words << fmt::format("\"{}\"\n", escaped);
  }
}

}  // namespace meshwork
