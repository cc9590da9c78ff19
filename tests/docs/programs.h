// The includes of the pages' programs, before the namespace in which each of them stands (CMakeLists.txt).
#pragma once

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "docs/say.h"
#include "examples/support/digits.h"
#include "examples/support/mlp.h"
#include "fmt/format.h"
#include "meshwork.h"
#include "meshwork/base/io/file.h"
#include "meshwork/base/status.h"
#include "meshwork/ir/rewrite.h"
#include "meshwork/ir/row.h"
#include "meshwork/layout/layout.h"
#include "meshwork/mesh/placement.h"
#include "meshwork/ops/control/live_values.h"
#include "meshwork/ops/elementwise.h"
#include "meshwork/runtime/cpu/reduce.h"
#include "meshwork/stablehlo/read/read_stablehlo.h"
#include "meshwork/tools/check/check_cross_device.h"
#include "meshwork/tools/check/check_op.h"
#include "meshwork/train/cluster/replica_check.h"
#include "meshwork/train/cluster/stop_signals.h"
#include "meshwork/train/fit/train_and_evaluate.h"
