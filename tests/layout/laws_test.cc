// The laws of layouts, over every layout of every mesh of up to 12 devices, with its axes cut in every way. Of
// strided layouts every nth is taken; with MESHWORK_LONG_TESTS=1, every one.
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "layout/all_layouts.h"
#include "mesh/all_meshes.h"
#include "meshwork/layout/json.h"
#include "meshwork/layout/layout.h"
#include "nlohmann/json.hpp"

namespace meshwork::laws_test {
namespace {

constexpr int64_t kPadding = -1;

const std::vector<Mesh>& Meshes() {
  static const std::vector<Mesh>& meshes = *[] {
    auto* all = new std::vector<Mesh>;
    for (int64_t n = 1; n <= 12; ++n)
      for (const Mesh& mesh : AllMeshes(n)) all->push_back(mesh);
    for (const char* text : {"a=1", "a=1,b=4", "a=2,b=1,c=2*2"}) all->push_back(Mesh::Parse(text).value());
    return all;
  }();
  return meshes;
}

// Calls f(layout, shape) for plain and strided layouts.
void ForEachLayout(const std::function<void(const Layout&, const Shape&)>& f) {
  auto call = [&](const std::vector<Layout>& layouts, const std::vector<Shape>& shapes, int64_t stride) {
    for (size_t i = 0; i < layouts.size(); i += stride) {
      for (const Shape& shape : shapes) {
        if (!::testing::Test::HasFailure()) f(layouts[i], shape);
      }
    }
  };
  for (const Mesh& mesh : Meshes()) {
    call(AllWholeLayouts(mesh, 0), {{}}, 1);
    call(AllWholeLayouts(mesh, 1), AllShapes(1, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 24}), 1);
    call(AllWholeLayouts(mesh, 2), {{4, 6}, {5, 3}, {1, 7}, {0, 4}, {12, 2}}, 1);
    const int64_t stride = EverySo(mesh.num_axes() > 2 ? 23 : mesh.num_axes() > 1 ? 5 : 1);
    for (int64_t size : {4, 6, 8, 12}) call(AllStridedLayouts(mesh, {size}, 3), {{size}}, stride);
    if (mesh.num_axes() <= 2) call(AllStridedLayouts(mesh, {4, 6}, 2), {{4, 6}}, stride);
  }
}

std::string Name(const Layout& layout, const Shape& shape) {
  return fmt::format("{} {} on {}", ShapeToString(shape), layout.ToString(), layout.mesh().ToString());
}

// ---- The definition of layouts, computed by cutting lists.

// The buffer of a device along a dim of `size` elements, kPadding past the end of a short block.
std::vector<int64_t> Slots(const Mesh& mesh, const AxisList& axes, int64_t size, int64_t device) {
  std::vector<int64_t> slots;
  for (int64_t i = 0; i < size; ++i) slots.push_back(i);
  AxisList cutting;
  for (int axis : axes)
    if (mesh.axis(axis).size > 1) cutting.push_back(axis);
  for (const std::string& name : mesh.NamesOf(cutting)) {  // parts in a row have one name
    const AxisGroup group(mesh, mesh.FindAxes(name).value());
    while (static_cast<int64_t>(slots.size()) % group.size() != 0) slots.push_back(kPadding);
    const auto block = static_cast<std::ptrdiff_t>(slots.size()) / group.size();
    const auto begin = slots.begin() + group.RankOf(device) * block;
    slots = std::vector<int64_t>(begin, begin + block);
  }
  return slots;
}

// Every pair of a slot of `major` and a slot of `minor`; the second varies fastest.
std::vector<int64_t> Product(const std::vector<int64_t>& major, const std::vector<int64_t>& minor,
                             int64_t minor_size) {
  std::vector<int64_t> slots;
  for (int64_t a : major)
    for (int64_t b : minor) slots.push_back(a == kPadding || b == kPadding ? kPadding : a * minor_size + b);
  return slots;
}

std::vector<int64_t> DimSlots(const Layout& layout, const Shape& shape, int d, int64_t device) {
  std::vector<int64_t> slots = {0};
  for (const Factor& factor : layout.Factors(d, shape[d]))
    slots = Product(slots, Slots(layout.mesh(), factor.axes, factor.size, device), factor.size);
  return slots;
}

// The linear indices of the elements in a device's buffer.
std::vector<int64_t> BufferOf(const Layout& layout, const Shape& shape, int64_t device) {
  std::vector<int64_t> slots = {0};
  for (int d = 0; d < layout.rank(); ++d)
    slots = Product(slots, DimSlots(layout, shape, d, device), shape[d]);
  return slots;
}

TEST(LayoutLaws, BuffersHoldWhatTheDefinitionSays) {
  ForEachLayout([](const Layout& layout, const Shape& shape) {
    const Shape local = layout.LocalShape(shape);
    for (int64_t device = 0; device < layout.mesh().num_devices(); ++device) {
      const std::vector<int64_t> buffer = BufferOf(layout, shape, device);
      ASSERT_EQ(NumElements(local), buffer.size()) << Name(layout, shape);
      size_t at = 0;
      ForEachIndex(FullBlock(local), [&](const Shape& index) {
        const int64_t element = buffer[at++];
        ASSERT_EQ(layout.IsHeld(shape, device, index), element != kPadding) << Name(layout, shape);
        if (element == kPadding) return;
        ASSERT_EQ(Linear(shape, layout.GlobalIndex(shape, device, index)), element) << Name(layout, shape);
      });
      for (size_t d = 0; d < local.size(); ++d) {
        for (int64_t outside : {int64_t{-1}, local[d]}) {
          Shape index(local.size(), 0);
          index[d] = outside;
          ASSERT_FALSE(layout.IsHeld(shape, device, index)) << Name(layout, shape);
        }
      }
    }
  });
}

TEST(LayoutLaws, ADimIsPaddedWhereABufferIsNotFull) {
  ForEachLayout([](const Layout& layout, const Shape& shape) {
    for (int d = 0; d < layout.rank(); ++d) {
      bool padded = false;
      for (int64_t device = 0; device < layout.mesh().num_devices(); ++device)
        for (int64_t element : DimSlots(layout, shape, d, device)) padded |= element == kPadding;
      ASSERT_EQ(layout.IsPadded(shape, d), padded) << Name(layout, shape) << " dim " << d;
    }
  });
}

TEST(LayoutLaws, EveryElementIsHeldOncePerSettingOfTheOtherAxes) {
  ForEachLayout([](const Layout& layout, const Shape& shape) {
    const Mesh& mesh = layout.mesh();
    AxisSet others;
    for (int axis = 0; axis < mesh.num_axes(); ++axis)
      if (!layout.ShardedAxes().Contains(axis)) others.Add(axis);
    const AxisGroup settings(mesh, others.ToList());
    std::vector<int> holders(settings.size() * NumElements(shape), 0);
    for (int64_t device = 0; device < mesh.num_devices(); ++device)
      for (int64_t element : BufferOf(layout, shape, device))
        if (element != kPadding) ++holders[settings.RankOf(device) * NumElements(shape) + element];
    ASSERT_TRUE(std::all_of(holders.begin(), holders.end(), [](int n) { return n == 1; }))
        << Name(layout, shape);
  });
}

TEST(LayoutLaws, LocateFindsTheLowestHolderAndGlobalIndexLeadsBack) {
  ForEachLayout([](const Layout& layout, const Shape& shape) {
    std::vector<int64_t> lowest(NumElements(shape), -1);
    for (int64_t device = layout.mesh().num_devices(); device-- > 0;)
      for (int64_t element : BufferOf(layout, shape, device))
        if (element != kPadding) lowest[element] = device;
    ForEachIndex(FullBlock(shape), [&](const Shape& index) {
      const Layout::Location at = layout.Locate(shape, index);
      ASSERT_EQ(at.device, lowest[Linear(shape, index)])
          << Name(layout, shape) << " " << ShapeToString(index);
      ASSERT_EQ(layout.GlobalIndex(shape, at.device, at.local), index) << Name(layout, shape);
    });
  });
}

TEST(LayoutLaws, ADeviceHoldsABoxOfFactors) {
  ForEachLayout([](const Layout& layout, const Shape& shape) {
    const Shape factors = layout.FactorShape(shape), blocks = layout.Flat().LocalShape(factors);
    ASSERT_EQ(NumElements(factors), NumElements(shape));
    for (int64_t device = 0; device < layout.mesh().num_devices(); ++device) {
      const Block block = layout.BlockOf(shape, device);
      ASSERT_EQ(block, layout.Flat().BlockOf(factors, device));
      std::vector<int64_t> box;
      for (size_t f = 0; f < block.size(); ++f) {
        ASSERT_GE(block[f].start, 0) << Name(layout, shape);
        ASSERT_GE(block[f].size, 0) << Name(layout, shape);
        ASSERT_LE(block[f].start + block[f].size, factors[f]) << Name(layout, shape);
        ASSERT_LE(block[f].size, blocks[f]) << Name(layout, shape);
      }
      ForEachIndex(block, [&](const Shape& index) { box.push_back(Linear(factors, index)); });
      std::vector<int64_t> held = BufferOf(layout, shape, device);
      held.erase(std::remove(held.begin(), held.end(), kPadding), held.end());
      ASSERT_EQ(box, held) << Name(layout, shape);
    }
  });
}

TEST(LayoutLaws, TextAndJsonAndSpecsReadBack) {
  ForEachLayout([previous = std::string()](const Layout& whole, const Shape& shape) mutable {
    if (previous == Name(whole, {})) return;  // the same layout as before, of another shape
    previous = Name(whole, {});
    const Mesh& mesh = whole.mesh();
    ASSERT_EQ(Layout::Create(mesh, SpecOf(whole)).value(), whole) << Name(whole, shape);
    for (const Layout& layout :
         WithAllPartials(whole, {std::begin(kAllReduceOps), std::end(kAllReduceOps)})) {
      ASSERT_EQ(Layout::Parse(mesh, layout.ToString()).value(), layout) << Name(layout, shape);
      ASSERT_EQ(LayoutFromJson(mesh, ToJson(layout)).value(), layout) << Name(layout, shape);
    }
  });
}

// The mesh with each axis in one piece.
Mesh Uncut(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (int i = 0; i < mesh.num_axes(); ++i) {
    if (mesh.Continues(i)) axes.back().size *= mesh.axis(i).size;
    else axes.push_back({mesh.axis(i).name.substr(0, mesh.axis(i).name.find(':')), mesh.axis(i).size});
  }
  return Mesh::Create(std::move(axes)).value();
}

TEST(LayoutLaws, TextCutsTheMeshAsFarAsItNames) {
  ForEachLayout([](const Layout& layout, const Shape& shape) {
    const Layout read = Layout::Parse(Uncut(layout.mesh()), layout.ToString()).value();
    ASSERT_EQ(read.On(layout.mesh()), layout) << Name(layout, shape);
    ASSERT_EQ(read.ToString(), layout.ToString()) << Name(layout, shape);
  });
}

std::vector<Mesh> FinerMeshes(const Mesh& mesh) {
  std::vector<Mesh> finer;
  for (const Mesh& other : AllMeshes(mesh.num_devices())) {
    bool is_finer = other != mesh && Uncut(other) == Uncut(mesh);
    for (const Axis& axis : mesh.axes()) is_finer = is_finer && other.FindAxes(axis.name).ok();
    if (is_finer) finer.push_back(other);
  }
  return finer;
}

TEST(LayoutLaws, ALayoutMeansTheSameOnAFinerMesh) {
  std::map<std::string, std::vector<Mesh>> meshes;
  for (const Mesh& mesh : Meshes()) meshes[mesh.ToString()] = FinerMeshes(mesh);
  int64_t count = 0;
  ForEachLayout([&](const Layout& layout, const Shape& shape) {
    for (const Mesh& finer : meshes.at(layout.mesh().ToString())) {
      const Layout same = layout.On(finer);
      ASSERT_EQ(same.mesh(), finer);
      ASSERT_EQ(same.ToString(), layout.ToString());
      ASSERT_EQ(same.LocalShape(shape), layout.LocalShape(shape)) << Name(layout, shape);
      for (int64_t device = 0; device < finer.num_devices(); ++device)
        ASSERT_EQ(BufferOf(same, shape, device), BufferOf(layout, shape, device)) << Name(layout, shape);
      for (int64_t device = 0; device < finer.num_devices(); ++device)
        ASSERT_EQ(same.BlockOf(shape, device), layout.BlockOf(shape, device)) << Name(layout, shape);
      ++count;
    }
  });
  EXPECT_GT(count, 5'000);
}

TEST(LayoutLaws, PartialsStayOnAFinerMesh) {
  const Mesh mesh = Mesh::Parse("a=4,b=6").value(), finer = Mesh::Parse("a=2*2,b=3*2").value();
  for (const char* text : {"{_ | max:b}", "{a | and:b}", "{| sum:(a,b)}", "{3@b*4,_ | prod:a}"}) {
    const Layout layout = Layout::Parse(mesh, text).value(), same = layout.On(finer);
    EXPECT_EQ(same.ToString(), text);
    EXPECT_EQ(same, Layout::Parse(finer, text).value());
    EXPECT_EQ(same.PartialAxes(), AxisSet(mesh.On(finer, layout.PartialAxes().ToList())));
  }
}

// ---- Nesting.

std::vector<int64_t> Held(const Mesh& mesh, const AxisList& axes, int64_t size, int64_t device) {
  std::vector<int64_t> held = Slots(mesh, axes, size, device);
  held.erase(std::remove(held.begin(), held.end(), kPadding), held.end());
  return held;
}

// True if, on every device, gathering over the axes from position `count` on gives the block by the axes before.
bool GathersTo(const Mesh& mesh, const AxisList& axes, size_t count, int64_t size) {
  const auto middle = axes.begin() + static_cast<std::ptrdiff_t>(count);
  const AxisGroup minor(mesh, AxisList(middle, axes.end()));
  for (int64_t device = 0; device < mesh.num_devices(); ++device) {
    std::vector<int64_t> gathered;
    for (int64_t rank = 0; rank < minor.size(); ++rank)
      for (int64_t element : Held(mesh, axes, size, minor.Member(device, rank))) gathered.push_back(element);
    if (gathered != Held(mesh, AxisList(axes.begin(), middle), size, device)) return false;
  }
  return true;
}

TEST(LayoutLaws, NestsIsTrueExactlyWhereGatheringGivesTheMajorBlocks) {
  std::vector<Mesh> meshes = Meshes();
  for (const char* text : {"a=2*2*2*2", "a=2*3*2,b=2", "a=3*3*2"})
    meshes.push_back(Mesh::Parse(text).value());
  int nested = 0, apart = 0;
  for (const Mesh& mesh : meshes) {
    for (const AxisList& axes : AllAxisLists(mesh)) {
      for (size_t count = 0; count <= axes.size(); ++count) {
        for (int64_t size : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 24, 25}) {
          const bool nests = Nests(mesh, axes, count, size);
          ASSERT_EQ(nests, GathersTo(mesh, axes, count, size))
              << mesh.AxesToString(axes) << " of " << mesh.ToString() << " from " << count << ", size "
              << size;
          ++(nests ? nested : apart);
        }
      }
    }
  }
  EXPECT_GT(nested, 1000);
  EXPECT_GT(apart, 1000);
}

TEST(LayoutLaws, AxesOfSizeOneAreDroppedWithoutAChange) {
  for (const char* text : {"a=2,one=1,b=3,uno=1", "one=1,a=2*2"}) {
    const Mesh mesh = Mesh::Parse(text).value();
    std::vector<std::pair<Layout, Shape>> cases;
    for (const Layout& layout : AllWholeLayouts(mesh, 2)) cases.push_back({layout, {7, 4}});
    for (const Layout& layout : AllStridedLayouts(mesh, {12}, 3)) cases.push_back({layout, {12}});
    for (const auto& [whole, shape] : cases) {
      const Layout layout = whole.WithoutTrivialAxes();
      for (int axis : layout.ShardedAxes().ToList()) EXPECT_GT(mesh.axis(axis).size, 1) << whole.ToString();
      ASSERT_EQ(Layout::Parse(mesh, layout.ToString()).value(), layout) << whole.ToString();
      ASSERT_EQ(layout.WithoutTrivialAxes(), layout) << whole.ToString();
      for (int64_t device = 0; device < mesh.num_devices(); ++device)
        ASSERT_EQ(BufferOf(layout, shape, device), BufferOf(whole, shape, device)) << whole.ToString();
    }
  }
}

}  // namespace
}  // namespace meshwork::laws_test
