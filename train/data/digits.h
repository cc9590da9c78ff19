// SyntheticDigits draws images of digits, for use if MNIST is not at hand.
//
//   MnistData digits = SyntheticDigits(/*train=*/20000, /*test=*/2000, /*seed=*/1, F32).value();
//
// A digit is one of several glyphs, polylines with rounded corners, whose points are shaken before the whole
// glyph is turned, slanted, scaled and moved. It is drawn with a pen of random width and strength onto a
// slightly noisy ground, sometimes with a stray stroke. Small multilayer perceptrons learn the digits to
// above 90 %; a linear classifier does worse.
//
// Example i of a part depends on (seed, part, i) alone: a larger set begins with the smaller one. Drawing
// uses only operations that IEEE 754 rounds exactly, and pixels are k/255 as in MNIST, so that every
// platform draws the same images.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "meshwork/train/data/dataset.h"

namespace meshwork {

// image: [n,784] in [0,1], row-major 28 x 28, ink is 1; label: i32[n], 0..9. Thread-safe.
// Errors: train or test is negative; dtype is not f32 or f64.
absl::StatusOr<MnistData> SyntheticDigits(int64_t train, int64_t test, uint64_t seed, DType dtype);

}  // namespace meshwork
