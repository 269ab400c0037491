#include "graphs.h"

#include "tendril/dist/autograd/ids.h"

namespace step_through {

using tendril::dist::autograd::make_id;

namespace {

/// The id of a rank's n-th message.
constexpr auto m = [](int rank, unsigned n) { return make_id(rank, n); };

}  // namespace

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {.name = "unused",
       .program = "rank 0: h = embed(x) on rank 1; m = metrics(h) there, never used; loss = decode(lstm(h)) there",
       .graph = {{m(1, 1), {.sender = 1, .receiver = 0, .users = {m(0, 1), m(0, 2)}}},
                 {m(0, 1), {.sender = 0, .receiver = 1, .users = {m(1, 2)}}},
                 {m(1, 2), {.sender = 1, .receiver = 0}},
                 {m(0, 2), {.sender = 0, .receiver = 1, .users = {m(1, 3)}}},
                 {m(1, 3), {.sender = 1, .receiver = 0, .used_by_root = true}}}},
      {.name = "chain",
       .program = "rank 0: loss = f(x) on rank 1, which calls g on rank 2; every sent tensor is used",
       .workers = 3,
       .graph = {{m(0, 1), {.sender = 0, .receiver = 1, .users = {m(1, 1)}}},
                 {m(1, 1), {.sender = 1, .receiver = 2, .users = {m(2, 1)}}},
                 {m(2, 1), {.sender = 2, .receiver = 1, .users = {m(1, 2)}}},
                 {m(1, 2), {.sender = 1, .receiver = 0, .used_by_root = true}}}},
      {.name = "diamond",
       .program = "rank 0: loss = f(x) on rank 1 + f(x) on rank 2",
       .workers = 3,
       .graph = {{m(0, 1), {.sender = 0, .receiver = 1, .users = {m(1, 1)}}},
                 {m(0, 2), {.sender = 0, .receiver = 2, .users = {m(2, 1)}}},
                 {m(1, 1), {.sender = 1, .receiver = 0, .used_by_root = true}},
                 {m(2, 1), {.sender = 2, .receiver = 0, .used_by_root = true}}}},
  };
  return all;
}

}  // namespace step_through
