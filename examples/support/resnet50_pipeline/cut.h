#pragma once

#include <tendril/dist/pipeline/schedule.h>

#include <cstddef>
#include <vector>

namespace pipeline {

/// Prints which layers (`cut[s]` to `cut[s + 1]`) each stage of the schedule has, and on which worker, with the seconds
/// that they cost together.
void print_cut(const tendril::dist::pipeline::Schedule& schedule, const std::vector<std::size_t>& cut,
               const std::vector<double>& costs);

}  // namespace pipeline
