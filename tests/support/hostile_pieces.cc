#include "support/hostile_pieces.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/ranges.h"
#include "meshwork/ir/text.h"

namespace meshwork {
namespace {

using Ints = std::vector<int64_t>;
using Names = std::vector<std::string>;

constexpr std::string_view kReals[] = {"0",    "-0",   "1",    "-1",    "0.5",    "nan",
                                       "-nan", "inf",  "-inf", "1e308", "-1e308", "1e-310",
                                       "2.5",  "1e30", "1e9",  "3e38",  "4e38",   "9007199254740993",
                                       "-3"};

}  // namespace

Type HostilePieces::RandomType() {
  Type type{chance_.Of(kAllDTypes), {}};
  if (chance_.Percent(50)) type.dtype = chance_.Percent(70) ? F32 : I32;
  const int rank = chance_.Percent(3) ? chance_.Below(28) : chance_.Below(5);
  for (int d = 0; d < rank; ++d) type.shape.push_back(rank > 6 ? 1 + chance_.Below(2) : chance_.Below(8));
  if (rank > 0 && chance_.Percent(6)) {
    int64_t& size = type.shape[chance_.Below(rank)];
    size = chance_.Of(Ints{1000, 65536, int64_t{1} << 24, int64_t{1} << 31, int64_t{1} << 32,
                           (int64_t{1} << 40) - 1, int64_t{1} << 40});
  }
  return type;
}

std::string HostilePieces::RandomLayout(int rank) {
  if (chance_.Percent(3)) rank += chance_.Below(3) - 1;
  Names dims;
  Names axes = axes_;
  auto take = [&] {
    if (axes.empty() || chance_.Percent(2)) return axes_.empty() ? std::string("w") : chance_.Of(axes_);
    const auto at = axes.begin() + chance_.Below(static_cast<int>(axes.size()));
    std::string axis = *at;
    axes.erase(at);
    return axis;
  };
  for (int d = 0; d < rank; ++d) {
    if (chance_.Percent(50) || axes.empty()) dims.emplace_back("_");
    else if (chance_.Percent(12)) dims.emplace_back("?");
    else if (axes.size() > 1 && chance_.Percent(20)) dims.push_back(fmt::format("({},{})", take(), take()));
    else if (chance_.Percent(10))
      dims.push_back(fmt::format("{}@{}*{}", chance_.Number(), take(), chance_.Number()));
    else if (chance_.Percent(8))
      dims.push_back(fmt::format("{}:({}){}", take(), 1 + chance_.Below(3), 1 + chance_.Below(4)));
    else dims.push_back(take());
  }
  std::string partial;
  if (!axes.empty() && chance_.Percent(3))
    partial = fmt::format(" | {}:{}", chance_.Of(Names{"sum", "max", "prod"}), take());
  return fmt::format("{{{}{}}}", fmt::join(dims, ","), partial);
}

Ints HostilePieces::Changed(Ints list) {
  const int times = 1 + chance_.Below(2);
  for (int i = 0; i < times; ++i) {
    switch (chance_.Below(7)) {
      case 0: list.push_back(chance_.Number()); break;
      case 1:
        if (!list.empty()) list.pop_back();
        break;
      case 2: std::reverse(list.begin(), list.end()); break;
      case 3:
        if (!list.empty()) list.push_back(chance_.Of(list));
        break;
      case 4:
        if (chance_.Percent(20)) list.clear();
        break;
      default:
        if (!list.empty())
          list[static_cast<size_t>(chance_.Below(static_cast<int>(list.size())))] = chance_.Number();
    }
  }
  return list;
}

std::string HostilePieces::AttrText(const AttrSpec& spec, const AttrValue* sample, int rank) {
  const bool as_is = sample != nullptr && chance_.Percent(60);
  switch (spec.kind) {
    case AttrKind::kBool: return chance_.Percent(50) ? "true" : "false";
    case AttrKind::kInt:
      if (as_is) break;
      return fmt::format("{}", sample != nullptr && chance_.Percent(40)
                                   ? static_cast<int64_t>(static_cast<uint64_t>(std::get<int64_t>(*sample)) +
                                                          static_cast<uint64_t>(chance_.Below(3) - 1))
                                   : chance_.Number());
    case AttrKind::kFloat:
      if (as_is) break;
      return std::string(chance_.Of(kReals));
    case AttrKind::kDType:
      if (as_is) break;
      return std::string(DTypeName(chance_.Of(kAllDTypes)));
    case AttrKind::kInts: {
      if (as_is) break;
      Ints list = sample != nullptr ? std::get<Ints>(*sample) : Ints{};
      if (sample == nullptr)
        for (int n = chance_.Below(4); n > 0; --n) list.push_back(chance_.Number());
      else list = Changed(std::move(list));
      return fmt::format("[{}]", fmt::join(list, ","));
    }
    case AttrKind::kAxes: {
      Names names;
      for (const std::string& axis : axes_)
        if (chance_.Percent(60)) names.push_back(axis);
      if (names.empty()) names.emplace_back("x");
      return fmt::format("({})", fmt::join(names, ","));
    }
    case AttrKind::kReduceOp:
      if (as_is && chance_.Percent(50)) break;
      return std::string(ReduceOpName(chance_.Of(kAllReduceOps)));
    case AttrKind::kLayout: return RandomLayout(rank);
  }
  return PrintAttr(Mesh(), *sample);
}

}  // namespace meshwork
