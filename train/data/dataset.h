// A Dataset is a set of examples, as named columns; Batches() walks over it.
//
//   MnistData mnist = LoadMnist("data/mnist", F32).value();
//   for (int64_t epoch = 0; epoch < 5; ++epoch)
//     for (const Batch& b : mnist.train.Batches({.batch_size = 128, .shuffle_seed = 7, .epoch = epoch}))
//       session.Run({{"x", b["image"]}, {"y", b["label"]}});     // f32[128,784], i32[128]
//
// The batches are the elements of a Pipeline (train/data/pipeline.h): a loop over them throws its errors, while
// PipelineIterator::Next returns them; Fit and Evaluate (train/fit/fit.h) take them, too.
//
// Every example comes exactly once per epoch; if the batch size does not divide the number of examples, the
// last batch is short, never dropped. The order depends on (size, batch size, lanes, seed, epoch) alone, on every
// platform and in every process; with one lane, the batch size does not matter either.
//
// Without a seed, the batches of a dataset in memory are views of the columns and cost nothing. Otherwise each walk
// has a thread that gathers the next two batches while the caller works on the current one; the thread ends with the
// walk, also if the loop is left early.
//
// Several processes that train together walk alike, and each gathers only the rows that it reads:
//
//   auto rows = [&](int64_t n) { return session.RowsHere(n); };
//   for (const Batch& b : mnist.train.Batches({.batch_size = 128, .shuffle_seed = 7, .rows = rows})) …
//
// A dataset may lie in several files, its parts, which are loaded when their first example is read. With lanes, a
// process reads only some of the files; see BatchesOptions.
//
// Thread safety: a Dataset is an immutable value, cheap to copy (copies share the elements) and safe to share. One walk
// belongs to one thread; any number of walks may exist at a time. A batch, or a tensor of it, stays valid and unchanged
// for as long as the caller keeps a copy.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwork/runtime/exec/row_range.h"
#include "meshwork/runtime/tensor/tensor.h"
#include "meshwork/train/data/columns.h"
#include "meshwork/train/data/example.h"
#include "meshwork/train/data/pipeline.h"

namespace meshwork {

// How an epoch is cut into batches.
struct BatchesOptions {
  int64_t batch_size = 32;                    // >= 1
  std::optional<uint64_t> shuffle_seed = {};  // without: in the order of the dataset
  // Each epoch has an order of its own; matters only with a seed. The epochs of a Pipeline::Repeat behind the batches,
  // and those of Fit, are counted from here.
  int64_t epoch = 0;
  // The first batch that is wanted, >= 0; earlier ones are neither gathered nor loaded. So a training can continue in
  // the middle of an epoch. Past the last batch, there are none. Each epoch of a Repeat behind the batches, or of Fit, begins
  // there; a saved position leaves batches out once.
  int64_t first_batch = 0;

  // Lets each process read a few files only. The examples are cut into `lanes` runs of equal length; if lanes does not
  // divide their number, the first runs have one example more. Each run is shuffled by itself. A batch of full size
  // takes as many examples from each run: row r is the next example of run r * lanes / batch_size. What then remains of
  // the runs, run by run, is the last, short batch.
  // Law: if lanes divides the number of examples, row r of any batch of b rows comes from run r * lanes / b.
  int64_t lanes = 1;  // >= 1; divides batch_size

  // The rows of a batch of `batch_rows` rows that are wanted here; null: all. A batch keeps its shape, and its wanted
  // rows are the same for any `rows`. The other rows may hold anything: if the batch is no view, they are not gathered,
  // and their memory is not touched, except in debug builds, which fill it with bytes 0xFF. Batches calls it, with the
  // sizes of the epoch's batches; nothing calls it later.
  std::function<RowRange(int64_t batch_rows)> rows = {};
};

class Dataset;

namespace internal {
class DatasetParts;
class DatasetStage;
// A hash of the names, types and examples of a data set that was made from columns. Of a column of more than 16 MB,
// about 16 MB are hashed: rows at equal distances. 0: the data set has parts, which would have to be loaded, or no
// columns.
uint64_t ContentsOf(const Dataset& dataset);
}  // namespace internal

class Dataset {
 public:
  // Some consecutive examples, such as those of a file.
  struct Part {
    int64_t examples = 0;
    // Returns their columns, as Create takes them. Called by any thread, once; again only after an error. What it
    // throws becomes an error.
    std::function<absl::StatusOr<Columns>()> load = {};
  };

  Dataset() = default;  // no columns, no examples
  // Columns of equal dim 0, one example per row: {"image": f32[n,784]}, {"label": i32[n]}.
  // Errors: no columns, a name twice, a tensor without storage, a scalar, different numbers of rows.
  static absl::StatusOr<Dataset> Create(Columns columns);
  // The examples of all parts, one part behind the other. A part is loaded when a walk first reads an example of it, by
  // the walk's thread; it then stays in memory, for all copies of this dataset. All parts have the same columns, in
  // the same order, whose types differ in dim 0 only.
  //   Dataset::FromParts({{30000, [] { return ReadSafetensors("a"); }}, {30000, [] { return ReadSafetensors("b"); }}})
  // Errors: no parts, a part without `load`, a negative number of examples, more than 2^40 in all.
  static absl::StatusOr<Dataset> FromParts(std::vector<Part> parts);

  int64_t size() const { return size_; }
  // All columns. Loads all parts, and copies them into one tensor per column unless there is one part. Error: a part
  // cannot be loaded.
  absl::StatusOr<Columns> columns() const;
  // The same for one column. Errors: there is no such column (with the nearest name); a part cannot be loaded.
  absl::StatusOr<Tensor> column(std::string_view name) const;

  // The first n examples, or all if there are fewer; none if n < 0. A view, which loads nothing.
  Dataset Take(int64_t n) const;

  // One epoch's batches. Pipeline::size is their number: ⌈size / batch size⌉, less those before the first. Errors, of
  // Pipeline::status: the batch size is not positive; the first batch is negative; the lanes do not divide the batch
  // size; options.rows gives rows that a batch does not have. Error of the iteration: a part cannot be loaded: its
  // loader's error, another number of examples, other columns.
  Pipeline Batches(BatchesOptions options) const;

 private:
  friend class internal::DatasetStage;
  friend uint64_t internal::ContentsOf(const Dataset& dataset);
  Dataset(std::shared_ptr<internal::DatasetParts> parts, int64_t size)
      : parts_(std::move(parts)), size_(size) {}

  std::shared_ptr<internal::DatasetParts> parts_;  // null: there are no columns
  int64_t size_ = 0;                               // the first examples of the parts
};

// A permutation of 0 to n - 1 for each (seed, epoch), by Fisher and Yates' shuffle. None if n < 0.
std::vector<int64_t> ShuffledOrder(int64_t n, uint64_t seed, int64_t epoch);

// Columns "image": [n,784], row-major 28 x 28, ground 0 to ink 1; and "label": i32[n], 0 to 9.
struct MnistData {
  Dataset train;  // of MNIST: 60000 examples
  Dataset test;   // of MNIST: 10000
};

// How many examples are read, from the first on; none if negative.
struct MnistLimits {
  int64_t train = std::numeric_limits<int64_t>::max();
  int64_t test = std::numeric_limits<int64_t>::max();
};

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte from `dir`, each plain or, if that is missing, .gz.
// Images of `dtype` f32 or f64 are pixel / 255; memory is allocated only for the images that are kept. Any
// file with this format will do (Fashion-MNIST, subsets). Errors: another dtype; a file is missing or damaged
// (see ReadIdx), has another shape, labels beyond 9, or not as many labels as images; these are also found in
// examples that are not kept. Throws std::system_error if the system refuses a thread.
absl::StatusOr<MnistData> LoadMnist(const std::string& dir, DType dtype, const MnistLimits& keep = {});

}  // namespace meshwork
