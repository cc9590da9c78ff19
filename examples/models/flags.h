// The common part of the programs of this folder: their flags, and a graph that is made according to the flags.
#pragma once

#include <cstdlib>
#include <string>

#include "meshwork/base/flags.h"
#include "meshwork/train.h"

namespace meshwork {

struct ModelFlags {
  std::string mesh = "batch=2,model=2", type = "f32";
  int64_t steps = 0, digits = 6;
  DType dtype = F32;

  // `steps`: the default of --steps. Ends the program on --help and on mistakes.
  ModelFlags(int argc, char** argv, const char* program, const char* about, int64_t steps) : steps(steps) {
    FlagTable flags(program, about);
    flags.Text("mesh", "named axes; \"batch\" shards the examples, \"model\" the channels", &mesh);
    flags.Int("steps", "steps of training", &this->steps, /*at_least=*/1);
    flags.Int("digits", "digits of the losses that are printed", &digits, /*at_least=*/1, /*at_most=*/17);
    flags.Choice("dtype", "of images and variables", &type, {"f32", "f64"});
    absl::Status status = flags.Parse(argc, argv);
    if (status.ok() && !flags.help_asked()) status = Mesh::VirtualCpus(mesh).status();
    if (flags.help_asked()) fmt::print("{}", flags.Help());
    if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
    if (flags.help_asked() || !status.ok()) std::exit(status.ok() ? 0 : 2);
    dtype = type == "f64" ? F64 : F32;
  }

  // An empty graph. Axes in `layouts` that the mesh does not have shard nothing: the model is the same on every mesh.
  Graph NewGraph(NamedLayouts layouts) const {
    Graph graph(Mesh::VirtualCpus(mesh).value());
    graph.SetLayouts({.layouts = std::move(layouts), .missing_axes = MissingAxes::kShardNothing});
    graph.SetPrecision({.compute = dtype, .variables = dtype});
    return graph;
  }
};

}  // namespace meshwork
