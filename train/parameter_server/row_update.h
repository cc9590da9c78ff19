// Updates of some rows of a sparse table, in a server. Only this room uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/dtensor.h"
#include "meshwork/train/parameter_server/split.h"
#include "meshwork/train/session/session.h"

namespace meshwork {

// Rows of a tensor that lies whole on one device. `rows`: i64[k], each of the tensor's. `count` >= k: rows of the result,
// the last ones zeros.
Tensor PickRows(const DTensor& from, const Tensor& rows, int64_t count);
// Writes the first k rows of `values`.
void PutRows(const Tensor& values, const Tensor& rows, DTensor& to);

// Thread safety: one thread at a time.
class RowUpdate {
 public:
  RowUpdate(const SparseVariable& sparse, const SessionOptions& options)
      : sparse_(sparse), options_(options) {}

  // New rows of what is kept.
  struct Change {
    std::string kept;  // the piece's name
    Tensor rows, values;
  };
  // Changes nothing yet. `suffix`: of the pieces. `pushed`: the other values of the push, by their names as inputs. Programs
  // are compiled for 1, 2, 4, … rows, when they first come. Errors: those of Session.
  absl::StatusOr<std::vector<Change>> Run(std::map<std::string, DTensor>& state, const std::string& suffix,
                                          const Tensor& rows, const Tensor& gradient, const Feeds& pushed);

 private:
  absl::StatusOr<Session*> SessionOf(int64_t count);

  const SparseVariable sparse_;
  const SessionOptions options_;
  std::map<int64_t, Session> sessions_;  // by rows
};

}  // namespace meshwork
