#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstddef>

#include "tendril/tensor/cuda/runtime.h"
#include "tendril/tensor/error.h"
#include "tests/errors.h"

using namespace tendril;

BOOST_AUTO_TEST_SUITE(pinned)

BOOST_AUTO_TEST_CASE(without_more_pinned_memory_the_kept_blocks_are_given_back_first) {
  std::byte* kept = nullptr;
  {
    const cuda::PinnedBuffer buffer(3000);
    kept = buffer.data();
  }
  const auto is_pinned = [&] {
    cudaPointerAttributes attributes{};
    return cudaPointerGetAttributes(&attributes, kept) == cudaSuccess && attributes.type == cudaMemoryTypeHost;
  };
  BOOST_TEST(is_pinned());
  BOOST_CHECK_EXCEPTION(cuda::PinnedBuffer(std::size_t{1} << 55), Error, tendril::testing::says("pinned memory"));
  BOOST_TEST(!is_pinned());
  cudaGetLastError();
  BOOST_TEST((cuda::PinnedBuffer(3000).data() != nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
