#include "meshwork/layout/layout.h"

#include "errors/errors.h"
#include "gtest/gtest.h"
#include "meshwork/layout/relayout.h"

namespace meshwork::layout_test {
namespace {

TEST(LayoutErrors, Text) {
  const Mesh mesh = Mesh::Parse("batch=2,model=4").value();
  auto parse = [&](std::string_view text) { return Layout::Parse(mesh, text); };
  std::vector<Mistake> mistakes;
  using std::string_view_literals::operator""sv;
  for (std::string_view text :
       {""sv, "batch,_"sv, "{batch,_"sv, "{batch model}"sv, "{batch,}"sv, "{,batch}"sv, "{(batch,model}"sv,
        "{(batch,_)}"sv, "{()}"sv, "{batch}}"sv, "{batch} model"sv, "{batch}\0model"sv, "{_ | sum}"sv,
        "{_ | sum:}"sv, "{_ | sum:_}"sv, "{_ | sum:batch | max:model}"sv, "{batch,%}"sv, "{\xff}"sv,
        // Reductions.
        "{_ | smu:batch}"sv, "{_ | Max:batch}"sv, "{_ | mean:batch}"sv, "{_ | }"sv,
        "{_ | sum:batch, max:model}"sv,
        // Axes.
        "{batch, modle}"sv, "{_ | sum:expert}"sv, "{_, modle:(2)2}"sv, "{batch, _ | sum:batch}"sv,
        "{_ | sum:model, sum:model}"sv, "{model, _ | sum:model:(1)2}"sv, "{model:(3)2}"sv, "{batch, ?}"sv,
        "{MATCH, batch}"sv,
        // Factors.
        "{0@model*4}"sv, "{4@model*}"sv, "{4@model*batch}"sv, "{4@model*-3}"sv,
        "{9223372036854775808@model*4}"sv, "{4@*3}"sv, "{4@_*3}"sv, "{4@(model*3)}"sv, "{model*4}"sv,
        "{8@model}"sv, "{batch,8}"sv, "{1048576@model*1048577}"sv, "{4@model*4@model}"sv, "{4@modle*4}"sv,
        // Sub-axes.
        "{model:2}"sv, "{model:(a)2}"sv, "{model:(1}"sv, "{model:(1)}"sv}) {
    std::string name(text);
    for (char& c : name)
      if (c == '\0' || c == '\xff') c = '?';
    mistakes.push_back({name.empty() ? "nothing" : name, [=] { return parse(text); }});
  }
  ExpectErrors("layout_text", mistakes);
}

TEST(LayoutErrors, Specs) {
  const Mesh mesh = Mesh::Parse("batch=2,model=12").value();
  auto create = [&](const LayoutSpec& spec) { return Layout::Create(mesh, spec); };
  auto read = [&](std::string_view text) { return Layout::Parse(mesh, text).value(); };
  auto plan = [&](std::string_view from, std::string_view to) {
    return PlanRelayout(read(from), read(to), Shape(read(to).rank(), 24));
  };
  ExpectErrors("layout", {
                             MISTAKE(create({"batch", "modle"})),
                             MISTAKE(create({""})),
                             MISTAKE(create({"batch", "batch"})),
                             MISTAKE(create({{"model", "model"}})),
                             MISTAKE(create({{"model:(2)3", "model:(1)6"}})),
                             MISTAKE(create({"model:(5)2"})),
                             MISTAKE(create({"model:(1)2", "model:(3)4"})),
                             MISTAKE(create({MATCH, "batch"})),
                             MISTAKE(create({OPEN})),
                             MISTAKE(create({DimSpec::Factors({{0, {"batch"}}, {4}})})),
                             MISTAKE(create({DimSpec::Factors({{-4, {"batch"}}, {4}})})),
                             MISTAKE(create({DimSpec::Factors({{4, {"bacth"}}, {4}})})),
                             MISTAKE(read("{batch,_}").Fits({12})),
                             MISTAKE(read("{batch}").Fits({12, 6})),
                             MISTAKE(read("{4@batch*3,_}").Fits({13, 5})),
                             MISTAKE(ReduceOpFromName("mean")),
                             MISTAKE(ReduceOpFromName("summ")),
                             MISTAKE(plan("{_}", "{_ | sum:batch}")),
                             MISTAKE(plan("{_ | sum:batch}", "{_ | max:batch}")),
                         });
}

}  // namespace
}  // namespace meshwork::layout_test
