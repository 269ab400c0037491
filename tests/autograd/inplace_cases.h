#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"

/// What is changed in place, and how: for inplace_test.cpp and inplace_refused_test.cpp.
namespace inplace_cases {

using namespace tendril;

inline Tensor leaf() { return tensor({{0.5, -1.5, 2.}, {1., 3., -0.5}}, {.dtype = kFloat64, .requires_grad = true}); }
inline Tensor other_leaf() {
  return tensor({{1.5, 0.5, -2.}, {2., -1., 4.}}, {.dtype = kFloat64, .requires_grad = true});
}

struct Change {
  const char* name;
  std::function<void(Tensor&, const Tensor&)> in_place;
  std::function<Tensor(const Tensor&, const Tensor&)> out_of_place;
};

inline const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      {"add_", [](Tensor& x, const Tensor& w) { x.add_(w); }, [](const Tensor& x, const Tensor& w) { return x + w; }},
      {"add_ alpha", [](Tensor& x, const Tensor& w) { x.add_(w, 0.5); },
       [](const Tensor& x, const Tensor& w) { return x + w * 0.5; }},
      {"sub_", [](Tensor& x, const Tensor& w) { x.sub_(w); }, [](const Tensor& x, const Tensor& w) { return x - w; }},
      {"mul_", [](Tensor& x, const Tensor& w) { x.mul_(w); }, [](const Tensor& x, const Tensor& w) { return x * w; }},
      {"div_", [](Tensor& x, const Tensor& w) { x.div_(w); }, [](const Tensor& x, const Tensor& w) { return x / w; }},
      {"+=", [](Tensor& x, const Tensor& w) { x += w; }, [](const Tensor& x, const Tensor& w) { return x + w; }},
      {"-=", [](Tensor& x, const Tensor& w) { x -= w; }, [](const Tensor& x, const Tensor& w) { return x - w; }},
      {"*=", [](Tensor& x, const Tensor& w) { x *= w; }, [](const Tensor& x, const Tensor& w) { return x * w; }},
      {"/=", [](Tensor& x, const Tensor& w) { x /= w; }, [](const Tensor& x, const Tensor& w) { return x / w; }},
      {"copy_", [](Tensor& x, const Tensor& w) { x.copy_(w); },
       [](const Tensor& x, const Tensor& w) { return x * 0 + w; }},
      {"add_ number", [](Tensor& x, const Tensor&) { x.add_(2); },
       [](const Tensor& x, const Tensor&) { return x + 2; }},
      {"sub_ number", [](Tensor& x, const Tensor&) { x.sub_(2); },
       [](const Tensor& x, const Tensor&) { return x - 2; }},
      {"mul_ number", [](Tensor& x, const Tensor&) { x.mul_(2); },
       [](const Tensor& x, const Tensor&) { return x * 2; }},
      {"div_ number", [](Tensor& x, const Tensor&) { x.div_(2); },
       [](const Tensor& x, const Tensor&) { return x / 2; }},
      {"relu_", [](Tensor& x, const Tensor&) { x.relu_(); }, [](const Tensor& x, const Tensor&) { return x.relu(); }},
      {"clamp_", [](Tensor& x, const Tensor&) { x.clamp_(-1, 2); },
       [](const Tensor& x, const Tensor&) { return x.clamp(-1, 2); }},
      {"masked_fill_", [](Tensor& x, const Tensor& w) { x.masked_fill_(w.detach() > 0, 3); },
       [](const Tensor& x, const Tensor& w) { return x.masked_fill(w.detach() > 0, 3); }},
      {"fill_", [](Tensor& x, const Tensor&) { x.fill_(3); }, [](const Tensor& x, const Tensor&) { return x * 0 + 3; }},
      {"zero_", [](Tensor& x, const Tensor&) { x.zero_(); }, [](const Tensor& x, const Tensor&) { return x * 0; }},
  };
  return all;
}

/// Ways to see a part of a [2, 3] tensor, and the tensor with that part replaced, without writing.
struct Part {
  const char* name;
  std::function<Tensor(const Tensor&)> see;
  std::function<Tensor(const Tensor& base, const Tensor& part)> replace;
};

inline const std::vector<Part>& parts() {
  static const std::vector<Part> all = {
      {"all by view",
       [](const Tensor& x) {
         return x.view({3, 2});
       },
       [](const Tensor&, const Tensor& part) {
         return part.reshape({2, 3});
       }},
      {"a row", [](const Tensor& x) { return x[1]; },
       [](const Tensor& base, const Tensor& part) {
         return stack({base[0], part});
       }},
      {"a column", [](const Tensor& x) { return x.select(1, 0); },
       [](const Tensor& base, const Tensor& part) {
         return cat({part.unsqueeze(1), base.slice(1, 1)}, 1);
       }},
      {"a slice", [](const Tensor& x) { return x.slice(1, 1); },
       [](const Tensor& base, const Tensor& part) {
         return cat({base.slice(1, 0, 1), part}, 1);
       }},
      {"every other column", [](const Tensor& x) { return x.slice(1, 0, INT64_MAX, 2); },
       [](const Tensor& base, const Tensor& part) {
         return cat({part.slice(1, 0, 1), base.slice(1, 1, 2), part.slice(1, 1)}, 1);
       }},
      {"the transpose", [](const Tensor& x) { return x.t(); },
       [](const Tensor&, const Tensor& part) { return part.t(); }},
      {"a view of a view", [](const Tensor& x) { return x.t().slice(0, 1, 2).squeeze(0).unsqueeze(1); },
       [](const Tensor& base, const Tensor& part) {
         return cat({base.slice(1, 0, 1), part, base.slice(1, 2)}, 1);
       }},
  };
  return all;
}

}  // namespace inplace_cases
