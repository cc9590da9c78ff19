// The common part of the programs of this folder: a flag that chooses the strategy, and functions that print.
#pragma once

#include <cstdlib>
#include <string>

#include "meshwork.h"
#include "meshwork/base/flags.h"

namespace meshwork {

struct StrategyFlags {
  std::string strategy = "mirrored", devices = "tpu", mesh = "batch=2,model=2", type = "f32",
              data_dir = "synthetic";
  int64_t num_devices = 2, epochs = 2, train = 512, test = 128, digits = 6;
  JoinOptions join;
  DType dtype = F32;

  // Ends the program on --help and on mistakes.
  StrategyFlags(int argc, char** argv, const char* program, const char* about) {
    FlagTable flags(program, about);
    flags.Choice("strategy", "where it is trained", &strategy,
                 {"default", "one_device", "mirrored", "central_storage", "tpu", "multi_worker",
                  "fully_sharded", "mesh"});
    flags.Text("devices", "for --strategy tpu: tpu, or another PJRT plugin, as pjrt:PATH:cpu_device_count=2",
               &devices);
    flags.Int("num-devices", "of each process, which share its cores", &num_devices, /*at_least=*/1);
    flags.Text("mesh", "for --strategy mesh", &mesh);
    flags.Int("epochs", "walks over the data", &epochs, /*at_least=*/1);
    flags.Int("train-examples", "the first so many", &train, /*at_least=*/1);
    flags.Int("test-examples", "the first so many", &test, /*at_least=*/1);
    flags.Int("digits", "of the losses that are printed", &digits, /*at_least=*/1, /*at_most=*/17);
    flags.Choice("dtype", "of images and variables", &type, {"f32", "f64"});
    flags.Text("data-dir", "folder with the four IDX files of MNIST, or \"synthetic\" for drawn digits",
               &data_dir);
    AddJoinFlags(flags, &join);
    const absl::Status status = flags.Parse(argc, argv);
    if (flags.help_asked()) fmt::print("{}", flags.Help());
    if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
    if (flags.help_asked() || !status.ok()) std::exit(status.ok() ? 0 : 2);
    dtype = type == "f64" ? F64 : F32;
  }

  absl::StatusOr<Strategy> Choose() const {
    if (strategy == "one_device") return OneDeviceStrategy();
    if (strategy == "mirrored") return MirroredStrategy({.num_devices = num_devices});
    if (strategy == "central_storage") return CentralStorageStrategy({.num_devices = num_devices});
    if (strategy == "tpu") return TPUStrategy({.devices = devices, .num_devices = num_devices});
    if (strategy == "multi_worker")
      return MultiWorkerMirroredStrategy({.devices_per_worker = num_devices, .join = join});
    if (strategy == "fully_sharded") return FullyShardedStrategy({.num_devices = num_devices, .join = join});
    if (strategy == "mesh")
      return MeshStrategy(mesh, {.layouts = {{"*/kernel", {UNSHARDED, "model"}}}, .join = join});
    return Strategy::Default();
  }

  // Runs `body` under the strategy, in all of its processes. Returns the exit code.
  int Main(const std::function<absl::Status(const Strategy& strategy)>& body) const {
    const absl::StatusOr<Strategy> chosen = Choose();
    const absl::Status status = !chosen.ok() ? chosen.status() : chosen->RunInAll([&]() -> absl::Status {
      const StrategyScope scope = chosen->Scope();
      if (chosen->is_chief()) fmt::print("{}\n", chosen->ToString());
      return body(*chosen);
    });
    if (!status.ok()) fmt::print(stderr, "{}\n", std::string(status.message()));
    return status.ok() ? 0 : 1;
  }

  absl::StatusOr<MnistData> Digits() const {
    if (data_dir != "synthetic") return LoadMnist(data_dir, dtype, {.train = train, .test = test});
    return SyntheticDigits(train, test, /*seed=*/1, dtype);
  }
};

}  // namespace meshwork
