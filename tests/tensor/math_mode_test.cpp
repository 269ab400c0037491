#include "tendril/tensor/cuda/math_mode.h"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(math_mode)

using namespace tendril;

BOOST_AUTO_TEST_CASE(products_are_exact_and_convolutions_fast_unless_told_otherwise) {
  BOOST_TEST(!cuda::matmul_tf32());
  BOOST_TEST(cuda::convolution_tf32());
  BOOST_TEST(cuda::cudnn_enabled());
  cuda::set_matmul_tf32(true);
  cuda::set_convolution_tf32(false);
  cuda::set_cudnn(false);
  BOOST_TEST(cuda::matmul_tf32());
  BOOST_TEST(!cuda::convolution_tf32());
  BOOST_TEST(!cuda::cudnn_enabled());
  cuda::set_matmul_tf32(false);
  cuda::set_convolution_tf32(true);
  cuda::set_cudnn(true);
}

BOOST_AUTO_TEST_CASE(what_cudnn_refuses_is_thrown_where_asked_for) {
  const bool before = cuda::strict();
  for (const bool on : {true, false}) {
    cuda::set_strict(on);
    BOOST_TEST(cuda::strict() == on);
  }
  cuda::set_strict(before);
}

BOOST_AUTO_TEST_SUITE_END()
