// A Pipeline describes a stream of examples: where they come from, and what is done to them. Iterating over it makes
// them, a few at a time: the stream may be longer than memory, and may have no end.
//
//   Pipeline train = Pipeline::FromFunction(60000, [](int64_t i) { return ReadImage(i); }, {.threads = 2})
//                        .Shuffle(10000, /*seed=*/7)
//                        .Repeat()
//                        .Batch(128, {.drop_remainder = true})
//                        .Prefetch(2);
//   for (const Example& batch : train)
//     session.Run({{"x", batch["image"]}, {"y", batch["label"]}});
//
// An element is an Example (train/data/example.h): named tensors, and named texts. Batch makes one element of several.
//
// Order. Which elements come, and in which order, depends on the description and its seeds alone: not on the number of
// threads, on time, or on the machine. Functions given to a pipeline must be pure: the same for the same argument.
//
// Memory. A stage keeps what its description says, and nothing else: Shuffle its buffer, Cache everything, Batch one
// batch, BucketBySequenceLength one of each bucket, Prefetch(n) n elements, a Map with n threads 2n. Nothing is read
// ahead but by Prefetch, by a Map with threads, and by Dataset::Batches: a thread gathers two batches, unless they are
// views. A batch's memory is used again as soon as the caller has no copy of it.
//
// Position. PipelineIterator::Save gives a short text, with which another iterator goes on: the elements to come are
// the same, bit by bit. It holds counters only. What a stage had read is read again: see Pipeline::Begin.
//
// Several processes. Each begins with the same description and takes a part of it by Shard. Where Batch stands decides
// what a batch is. Shard before Batch: each process has batches of its own, and a step trains on all of them. Batch
// before Shard: the batches are the same for any number of processes, and a process takes every count-th. Shard as
// early as you can: what a process leaves out of From, FromFunction or Range is not even made.
//
// Threads. Threads begin with the first element and end with the iterator, also if a loop is left early or a function
// fails. Ending one waits for the functions that are running. After a fork, iterators that have threads give an error
// in the child; the child begins new ones.
//
// Errors. A function that returns an error or throws ends the iteration with an error that says which stage, and which
// of its elements. Mistakes in a description are found when it is made; Pipeline::status says them.
// PipelineIterator::Next returns an error:
//
//   PipelineIterator walk = train.Begin();
//   for (;;) {
//     MESHWORK_ASSIGN_OR_RETURN(const std::optional<Example> batch, walk.Next());
//     if (!batch.has_value()) break;
//     …
//   }
//
// A loop over a pipeline throws it: absl::BadStatusOrAccess, as StatusOr::value() does. So a training that ignores
// errors ends, too, and does not go on with a part of its data.
//
// Thread safety: a Pipeline is an immutable value, cheap to copy and safe to share; any number of iterators may exist.
// Several of them, and with `threads` one alone, call its functions concurrently. An iterator belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwork/base/random.h"
#include "meshwork/runtime/exec/profile.h"
#include "meshwork/train/data/example.h"

namespace meshwork {

class Dataset;
class Pipeline;
class PipelineCursor;
class PipelineIterator;

namespace internal {
class Stage;
struct PipelineState;
// A pipeline that begins with a source, or, if that is an error, one with this mistake.
Pipeline PipelineOf(absl::StatusOr<std::shared_ptr<const Stage>> source);
}  // namespace internal

struct MapOptions {
  // 0: the function runs in the thread that asks for the next element. n >= 1: in n threads of the stage, which are at
  // most 2n elements ahead. The elements and their order are the same.
  int threads = 0;
  // The stages in front of the function give a share that this process alone reads, and the function makes whole
  // batches of it (train/strategy/distribute.h). So they may differ between processes, and Fingerprint leaves them out.
  bool from_shares = false;
};

struct BatchOptions {
  bool drop_remainder = false;  // leave out the last batch if it is short
};

// How rows of unequal sizes become one batch.
struct PaddingOptions {
  // By column, the sizes of an example in the batch; -1: that of the longest row of the batch. All are -1 for a column
  // that is not named. Error of the iteration: a row is longer.
  std::map<std::string, Shape> shapes = {};
  std::map<std::string, double> values = {};  // by column, what padding holds; 0 (false) if it is not named
  bool drop_remainder = false;                // leave out batches that are short
};

struct BucketOptions {
  PaddingOptions padding = {};
  // Sizes of -1 become the boundary above the bucket's lengths, less 1, instead of the longest row's size, so that each
  // bucket has batches of one shape. Error of the iteration: a length of the last boundary or more.
  bool pad_to_boundary = false;
};

struct InterleaveOptions {
  int64_t cycle = 16;  // so many inputs are open at a time, >= 1
  int64_t block = 1;   // so many elements in a row come from one of them, >= 1
};

class Pipeline {
 public:
  using MapFunction = std::function<absl::StatusOr<Example>(Example example)>;
  using FilterFunction = std::function<absl::StatusOr<bool>(const Example& example)>;
  using LengthFunction = std::function<absl::StatusOr<int64_t>(const Example& example)>;
  using IndexFunction = std::function<absl::StatusOr<Example>(int64_t index)>;
  // Gives the next example each time that it is called; nothing at the end.
  using Generator = std::function<absl::StatusOr<std::optional<Example>>()>;

  Pipeline() = default;  // no elements

  // ---- Sources.

  // The examples of a dataset, row by row. A part is loaded when its first example is read, and stays in memory.
  // Dataset::Batches gives whole batches of them.
  static Pipeline From(Dataset dataset);
  // Examples with one column, "index": i64[], from 0 to n - 1; without n, there is no end.
  static Pipeline Range(std::optional<int64_t> n = {});
  // function(0), function(1), …, function(n - 1); without n, there is no end.
  // Law: FromFunction(n, f, options) is Range(n).Map([](Example e) { return f(index of e); }, options).
  static Pipeline FromFunction(std::optional<int64_t> n, IndexFunction function, MapOptions options = {});
  // For elements that can only be made one after the other. Each walk over the pipeline calls `make` once, and then the
  // generator that it returns; the generator's state belongs to the walk.
  static Pipeline Generate(std::function<Generator()> make);

  // ---- Several inputs.

  // The first elements of all inputs together, then the second ones, until one input ends. Errors of the iteration: two
  // inputs have a column or text of the same name.
  static Pipeline Zip(std::vector<Pipeline> inputs);
  // Elements of the inputs by turns: `block` of one, then of the next, among those that are open. An input that has
  // ended gives its place to the next one that has not begun. With {.cycle = 1}: one input behind the other.
  // So several files are read at a time: give each input a Prefetch, or a Map with threads.
  static Pipeline Interleave(std::vector<Pipeline> inputs, InterleaveOptions options = {});

  // ---- What is done to elements.

  // function(element), in the order of the elements.
  Pipeline Map(MapFunction function, MapOptions options = {}) const;
  // The elements for which `function` is true.
  Pipeline Filter(FilterFunction function) const;
  // Each element is drawn at random from a buffer, which is filled up from the input. With a buffer as long as the
  // input, all orders are equally likely. An order depends on the seed, and on the epoch of the Repeat behind it. Keeps
  // `buffer` elements, >= 1.
  Pipeline Shuffle(int64_t buffer, uint64_t seed = static_cast<uint64_t>(DefaultSeed())) const;
  // Keeps all elements of the first complete walk; later walks read these instead of the input. So a Shuffle in front
  // of it has the same order in all epochs. Iterators and copies of the pipeline share them. A child of a fork reads
  // them if they were complete before the fork.
  Pipeline Cache() const;
  // All elements n times, n >= 0; without n, there is no end, unless there are no elements.
  Pipeline Repeat(std::optional<int64_t> n = {}) const;
  // Puts n elements, n >= 1, into one: a column of shape [d,…] becomes [n,d,…]. The last batch has the rest. Errors of
  // the iteration: elements of a batch have different columns, or types; an element has a text.
  Pipeline Batch(int64_t n, BatchOptions options = {}) const;
  // Like Batch, but an element's columns may have other sizes than the next element's, though not another number of
  // dims. Smaller columns are padded behind their elements (tf.data's padded_batch). A program takes batches of the
  // shape that it was written for: give `shapes`, or make a program for each shape.
  //
  //   lines.PaddedBatch(32, {.shapes = {{"ids", {128}}}, .values = {{"ids", 1}}})      // ids: [32,128]
  //
  // Errors of the iteration, besides Batch's: a row that is larger than its shape; a name in the options that is no
  // column; a value that is no element of the column's dtype.
  Pipeline PaddedBatch(int64_t n, PaddingOptions options = {}) const;
  // Padded batches of elements of about one length (tf.data's bucket_by_sequence_length). The increasing `boundaries`
  // divide the lengths into buckets: [0, boundaries[0]), [boundaries[0], boundaries[1]), …; the last bucket has no
  // upper boundary. Bucket i has batches of batch_sizes[i] elements. A batch comes when its bucket is full; at the end,
  // the rest of each bucket comes, the shortest lengths first. Keeps less than a batch of each bucket. An iterator that
  // continues at a position reads the elements in the buckets again, and all elements behind the first of them.
  //
  //   lines.BucketBySequenceLength(length_of, {7, 13}, {64, 64}, {.pad_to_boundary = true})   // [64,6] and [64,12]
  //
  // Errors: boundaries that do not increase from 1; not one batch size more than boundaries (the same number with
  // pad_to_boundary, which needs no bucket above the last); one below 1. Of the iteration: a negative length; those of
  // PaddedBatch.
  Pipeline BucketBySequenceLength(LengthFunction length, std::vector<int64_t> boundaries,
                                  std::vector<int64_t> batch_sizes, BucketOptions options = {}) const;
  // Elements index, index + count, index + 2 count, …; 0 <= index < count.
  Pipeline Shard(int64_t index, int64_t count) const;
  // The first n elements, or all if there are fewer.
  Pipeline Take(int64_t n) const;
  // All elements but the first n.
  Pipeline Skip(int64_t n) const;
  // A thread makes up to n elements ahead, n >= 1. Changes neither elements nor positions.
  Pipeline Prefetch(int64_t n) const;

  // ---- Iterating.

  // The first mistake in the description. An iterator gives it, too.
  const absl::Status& status() const { return status_; }
  // How many elements there are; nothing: unknown without making them (Filter, Generate, files), or there is no end.
  std::optional<int64_t> size() const;
  // Whether it is certain that there is no end: Range without n, Repeat without n, and pipelines made of these. A
  // function (Generate, Filter) may give elements without end though this is false.
  bool is_endless() const;
  // All that decides on the elements and their order, as a position notes it: "range(100) | map | batch(32)".
  std::string ToString() const;
  // A description that is equal in all processes that train on these elements together: ToString without the index of a
  // Shard, and without the stages in front of a Map from shares; with a hash of the examples of data sets in memory,
  // and of the names of files. The results of functions are not part of it. Fit, Evaluate and Predict compare it
  // (train/fit/fit.h). Reads up to 16 MB of each column of a data set, once.
  std::string Fingerprint() const;

  // Begins in front of the first element.
  PipelineIterator Begin() const;
  // Continues at a position that an iterator over such a pipeline has saved; "": at the beginning. The numbers of
  // threads and of Prefetch may have changed. Reads again: the elements in the buffer of a Shuffle, which are among
  // some (ln buffer + 3) * buffer elements of its input; the elements since the oldest one in a bucket; the elements
  // that a Cache has read, and that a Generate has made. A gzipped file is unpacked again from its beginning. A Shuffle
  // also draws its numbers again, 5 ns per element. Everything else continues at once.
  // Errors: status(); the text is no position, or is damaged; the pipeline's ToString is another one; the input has
  // changed so that there is no such place; an element that is read again cannot be read.
  // `epoch`: a Shuffle draws as in this epoch, >= 0, of a Repeat behind it. A position needs the epoch in which it was
  // saved, which the caller notes.
  absl::StatusOr<PipelineIterator> Begin(std::string_view position, int64_t epoch = 0) const;

  // For a loop over all elements; each call begins another walk. Throws what PipelineCursor::operator++ throws.
  PipelineCursor begin() const;
  std::default_sentinel_t end() const { return {}; }

 private:
  friend Pipeline internal::PipelineOf(absl::StatusOr<std::shared_ptr<const internal::Stage>> source);
  using StagePtr = std::shared_ptr<const internal::Stage>;
  explicit Pipeline(StagePtr stage) : stage_(std::move(stage)) {}
  static Pipeline Wrong(absl::Status status);
  StagePtr stage() const;  // never null
  // The stages of the inputs of `name`. Errors: there are none; the first mistake in one.
  static absl::StatusOr<std::vector<StagePtr>> StagesOf(std::string_view name,
                                                        const std::vector<Pipeline>& inputs);
  // This pipeline's mistake, or the new one, or the stage that `make` makes.
  Pipeline Then(absl::Status mistake, const std::function<StagePtr(StagePtr input)>& make) const;

  absl::Status status_;
  StagePtr stage_;  // null: no elements, or a mistake
};

// How long the caller of an iterator waited for it.
struct PipelineStats {
  int64_t elements = 0;                                       // that Next has returned
  double seconds = 0;                                         // spent in Next, in all
  double last_seconds = 0;                                    // by the last call
  int64_t waits = 0;                                          // calls that took longer than kLongWait
  double longest = 0;                                         // seconds
  static constexpr double kLongWait = InputWaits::kLongWait;  // seconds
};

// One walk over a pipeline. Copies are the same walk.
class PipelineIterator {
 public:
  // The next element; nothing at the end. After an error, or the end, the same again. Errors: the pipeline's status();
  // a function's, or a file's, with the stage and the element; what a function throws, as INTERNAL; this process is a
  // child of the one that has begun to iterate.
  absl::StatusOr<std::optional<Example>> Next();

  // The position behind the last element that Next has returned: for Pipeline::Begin, and as a fact of a checkpoint
  // (CheckpointFacts). One line of text. Error: the error that Next has given, if it has.
  absl::StatusOr<std::string> Save() const;

  const PipelineStats& stats() const;

  // For a loop over the remaining elements. In the loop, the position is behind the current element.
  PipelineCursor begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Pipeline;
  explicit PipelineIterator(std::shared_ptr<internal::PipelineState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::PipelineState> state_;  // the last copy ends the walk
};

// The remaining elements of a walk, as an input iterator.
class PipelineCursor {
 public:
  using iterator_concept = std::input_iterator_tag;
  using iterator_category = std::input_iterator_tag;
  using value_type = Example;
  using difference_type = std::ptrdiff_t;
  using pointer = const Example*;
  using reference = const Example&;

  const Example& operator*() const { return *current_; }
  const Example* operator->() const { return &*current_; }
  // Goes to the next element. Like StatusOr's value(), throws absl::BadStatusOrAccess with an error of Next.
  PipelineCursor& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return !current_.has_value(); }

 private:
  friend class PipelineIterator;
  explicit PipelineCursor(PipelineIterator walk) : walk_(std::move(walk)) { ++*this; }

  PipelineIterator walk_;
  std::optional<Example> current_;
};

}  // namespace meshwork
