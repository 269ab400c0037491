#pragma once

#include <cstdint>

#include "tendril/tensor/export.h"
#include "tendril/tensor/random.h"

TENDRIL_API_BEGIN

/// Where the random numbers of data loading come from: Philox with counters that no Generator of the same seed reaches.
namespace tendril::data::detail {

enum class Use : uint32_t { order = 1, split = 2, examples = 3 };

/// The seed of what an epoch draws for one use.
uint64_t epoch_seed(uint64_t seed, uint64_t epoch, Use use) noexcept;

/// The state of the Generator for the example that is `position`-th in its epoch: 2^32 blocks that are no other's.
Generator::State example_stream(uint64_t epoch_seed, uint64_t position) noexcept;

}  // namespace tendril::data::detail

TENDRIL_API_END
