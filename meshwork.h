// What most programs use (docs/api.md lists all headers). Parts of it: meshwork/core.h to describe a program and run it, meshwork/train.h to
// train a model.
#pragma once

#include "meshwork/runtime/cpu/cross_device_ops.h"
#include "meshwork/tools/report/html_report.h"
#include "meshwork/train.h"
#include "meshwork/train/parameter_server/partitioners.h"
#include "meshwork/train/parameter_server/rpc/closures.h"
#include "meshwork/train/parameter_server/rpc/coordinator.h"
#include "meshwork/train/parameter_server/rpc/options.h"
#include "meshwork/train/parameter_server/rpc/parameter_server_strategy.h"
#include "meshwork/train/parameter_server/rpc/remote_value.h"
#include "meshwork/train/parameter_server/rpc/run_task.h"
#include "meshwork/train/parameter_server/rpc/store_server.h"
#include "meshwork/train/parameter_server/rpc/worker_server.h"
#include "meshwork/train/parameter_server/served_session.h"
#include "meshwork/train/parameter_server/shard_store.h"
#include "meshwork/train/parameter_server/split.h"
#include "meshwork/train/parameter_server/store.h"
#include "meshwork/train/strategy/distribute.h"
#include "meshwork/train/strategy/replica.h"
#include "meshwork/train/strategy/strategies.h"
#include "meshwork/train/strategy/strategy.h"
