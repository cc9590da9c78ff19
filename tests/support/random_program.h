// Random global programs of all ops, for tests that hold for every program.
//
//   RandomPrograms programs;                      // reads the samples of every row
//   RandomProgram p = programs.Draw(/*seed=*/7);  // the same on every machine
//   Interpret(p.graph, p.feeds)
//
// A program applies samples of rows, in several sizes, to values of the right types: arguments, with any
// layout, or results of earlier nodes. So a new row is in these programs as soon as it has samples. Numbers
// stay comparable: an op that jumps, or needs numbers of a certain range, reads arguments, whose numbers are
// exact on every device.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwork/ir/row.h"
#include "support/moves_drawer.h"
#include "support/row_loops_drawer.h"
#include "support/rows_drawer.h"
#include "support/sample.h"

namespace meshwork {

class RandomPrograms {
 public:
  RandomPrograms() {
    for (const OpRow* row : DrawnRows()) {
      for (std::string_view text : row->samples) {
        const Sample sample = ParseSample(*row, text).value();
        pool_.push_back(sample);
        const size_t letters = sample.rule().letters.size();
        for (int64_t size : {1, 3, 5, 7, 12})
          if (auto resized = Resized(sample, std::vector<int64_t>(letters, size)))
            pool_.push_back(*std::move(resized));
        AddEmpty(sample, std::vector<int64_t>(letters, 3));
      }
    }
  }

  // What rows are applied to, and with which attributes.
  const std::vector<Sample>& pool() const { return pool_; }

  RandomProgram Draw(uint64_t seed) const { return RowsDrawer(pool_, seed).Draw(); }
  // Programs of the same ops, with empty dims; every third program has loops.
  RandomProgram DrawEmpty(uint64_t seed) const {
    if (seed % 3 == 0) return RowLoopsDrawer(empty_, seed).Draw();
    return RowsDrawer(empty_, seed).Draw();
  }
  // Programs with loops and branches, whose bodies are such programs, too.
  RandomProgram DrawLoops(uint64_t seed) const { return RowLoopsDrawer(pool_, seed).Draw(); }
  // As DrawLoops; each loop has a twin.
  RandomProgram DrawTwins(uint64_t seed) const { return RowLoopsDrawer(pool_, seed, /*twins=*/100).Draw(); }
  // Programs of moves of elements, and of twins that are written differently. Every device gives the same bits.
  static RandomProgram DrawMoves(uint64_t seed) { return MovesDrawer(seed).Draw(); }

 private:
  // One letter of the sample is empty, or two are, or none is.
  void AddEmpty(const Sample& sample, std::vector<int64_t> sizes) {
    const auto add = [&] {
      if (auto resized = Resized(sample, sizes)) empty_.push_back(*std::move(resized));
    };
    for (size_t l = 0; l < sizes.size(); ++l) {
      sizes[l] = 0;
      add();
      for (size_t other = 0; other < l; ++other) {
        const int64_t before = std::exchange(sizes[other], 0);
        add();
        sizes[other] = before;
      }
      sizes[l] = 3;
    }
    add();
  }

  std::vector<Sample> pool_, empty_;
};

}  // namespace meshwork
