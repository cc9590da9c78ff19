// Updates of some rows of a sparse table, in a server. Only this room uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/dtensor.h"
#include "meshwork/session/session.h"
#include "meshwork/train/parameter_server/split.h"

namespace meshwork {

// Copies rows of a tensor that lies whole on one device. `rows`: i64[k], numbers of rows of the tensor. `count` >= k:
// rows of the result, the last ones zeros.
Tensor PickRows(const DTensor& from, const Tensor& rows, int64_t count);
// Writes the first k rows of `values` to these k rows of `to`.
void PutRows(const Tensor& values, const Tensor& rows, DTensor& to);

// Thread safety: one thread at a time.
class RowUpdate {
 public:
  RowUpdate(const SparseVariable& sparse, const SessionOptions& options)
      : sparse_(sparse), options_(options) {}

  // New rows of a piece that is kept.
  struct Change {
    std::string kept;  // the piece's name
    Tensor rows, values;
  };
  // Computes the changes, but does not make them. `suffix`: of the pieces' names. `pushed`: the other values of the
  // push, by their names as inputs. Programs are compiled for 1, 2, 4, … rows, each when it is first needed. Errors:
  // those of Session.
  absl::StatusOr<std::vector<Change>> Run(std::map<std::string, DTensor>& state, const std::string& suffix,
                                          const Tensor& rows, const Tensor& gradient, const Feeds& pushed);

 private:
  absl::StatusOr<Session*> SessionOf(int64_t count);

  const SparseVariable sparse_;
  const SessionOptions options_;
  std::map<int64_t, Session> sessions_;  // by rows
};

}  // namespace meshwork
