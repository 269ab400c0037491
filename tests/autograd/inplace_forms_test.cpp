// Every pointwise operation has its form in place, which keeps the dtype of what it changes.
#include <fstream>
#include <regex>
#include <sstream>

#include "tendril/autograd/backward.h"
#include "tendril/autograd/grad_mode.h"
#include "tendril/autograd/history.h"
#include "tendril/autograd/ops/join.h"
#include "tendril/autograd/ops/pointwise.h"
#include "tendril/tensor/creation.h"
#include "tests/autograd/inplace_cases.h"
#include "tests/autograd/raises.h"
#include "tests/golden.h"

BOOST_AUTO_TEST_SUITE(inplace_forms)

using namespace tendril;
using namespace inplace_cases;

BOOST_AUTO_TEST_CASE(multiples_of_integers_are_added_and_subtracted) {
  for (const DType dtype : {kInt64, kInt32, kUInt8}) {
    Tensor x = tensor({10, 20}).to(dtype);
    const Tensor y = tensor({3, 4}).to(dtype);
    x.add_(y, 2);
    BOOST_TEST((x.to_vector<int64_t>() == std::vector<int64_t>{16, 28}));
    x.sub_(y, 3);
    BOOST_TEST((x.to_vector<int64_t>() == std::vector<int64_t>{7, 16}));
    CHECK_RAISES(DTypeError, "add_: alpha is 0.5, expected an integer", x.add_(y, 0.5));
    CHECK_RAISES(DTypeError, "sub_: alpha is -1", x.sub_(y, 1.0));
    BOOST_TEST((x.to_vector<int64_t>() == std::vector<int64_t>{7, 16}));
  }
  Tensor large = tensor({0});
  large.add_(tensor({1}), (int64_t{1} << 62) + 1);  // a double would not hold it
  BOOST_TEST(large.item<int64_t>() == (int64_t{1} << 62) + 1);
  Tensor mixed = ones({2});
  mixed.add_(tensor({3, 4}), 2);
  BOOST_TEST(mixed.to_vector<float>() == std::vector<float>({7, 9}));
}

BOOST_AUTO_TEST_CASE(an_operand_of_higher_precision_keeps_the_dtype_of_the_target) {
  const Tensor x = tensor({1., 2.}, {.requires_grad = true});
  const Tensor w = tensor({3., 4.}, {.dtype = kFloat64, .requires_grad = true});
  Tensor y = x * 1;
  y.mul_(w);
  BOOST_TEST((y.dtype() == kFloat32));
  y.sum().backward();
  BOOST_TEST(x.grad().to_vector<float>() == std::vector<float>({3, 4}));
  BOOST_TEST(w.grad().to_vector<double>() == std::vector<double>({1, 2}));
}

// Each row of the table, so that none can be without: the value is the operation's, converted.
BOOST_AUTO_TEST_CASE(every_row_of_the_table_has_its_form_in_place) {
  int rows = 0;
  const auto same = [&](const char* name, const Tensor& changed, const Tensor& version, const Tensor& expected) {
    ++rows;
    BOOST_TEST_CONTEXT(name) {
      BOOST_TEST(changed.is_same(version));
      BOOST_TEST(testing::difference(changed, expected.to(changed.dtype()), 1e-15, 1e-15) == "");
    }
  };
  const Tensor x = tensor({0.25, 0.0, 0.75}, {.dtype = kFloat64}), y = tensor({0.5, 0.25, -0.5}, {.dtype = kFloat64});
  const Tensor bits = tensor({5, 0, -3}), other = tensor({3, 2, 1});
#define TENDRIL_UNARY(op, ...)       \
  {                                  \
    const Tensor z = x.clone();      \
    same(#op, z.op##_(), z, x.op()); \
  }
#define TENDRIL_PREDICATE(op, ...) TENDRIL_UNARY(op)
#define ROW_OF_TWO(op, x, y)                       \
  {                                                \
    const Tensor z = x.clone(), w = x.clone();     \
    same(#op, z.op##_(y), z, x.op(y));             \
    same(#op " a number", w.op##_(1), w, x.op(1)); \
  }
#define TENDRIL_BINARY(op, ...) ROW_OF_TWO(op, x, y)
#define TENDRIL_COMPARE(op, ...) ROW_OF_TWO(op, x, y)
#define TENDRIL_INTEGRAL(op, ...) ROW_OF_TWO(op, bits, other)
#include "tendril/tensor/pointwise.def"
  BOOST_TEST(rows > 80);
}

// And the pointwise methods that are no rows: they stand before the products in tensor.h.
BOOST_AUTO_TEST_CASE(every_other_pointwise_method_has_its_form_in_place) {
  std::ifstream file(TENDRIL_TEST_DATA "/../../../tensor/tensor.h");
  std::ostringstream stream;
  stream << file.rdbuf();
  const std::string text = stream.str();
  const std::size_t begin = text.find("#include \"tendril/tensor/pointwise.def\""), end = text.find("Tensor matmul(");
  BOOST_REQUIRE((begin < end && end != std::string::npos));
  const std::string part = text.substr(begin, end - begin);
  const std::regex method("Tensor (\\w+)\\(");
  int count = 0;
  for (std::sregex_iterator match(part.begin(), part.end(), method), none; match != none; ++match, ++count) {
    const std::string name = (*match)[1];
    if (name == "where" || name == "isclose") continue;  // PyTorch has none either
    BOOST_TEST(text.find("const Tensor& " + name + "_(") != std::string::npos, name << " has no form in place");
  }
  BOOST_TEST(count >= 3);
}

BOOST_AUTO_TEST_CASE(questions_in_place_write_0_and_1_and_pass_no_gradient) {
  const Tensor x = leaf();
  const Tensor y = x * 0;
  y.logical_not_();
  BOOST_TEST(y.to_vector<double>() == std::vector<double>(6, 1));
  (y * x).sum().backward();
  BOOST_TEST(x.grad().to_vector<double>() == std::vector<double>(6, 1));
  BOOST_TEST(tensor({6, 0, -1}).bitwise_not_().to_vector<int64_t>() == std::vector<int64_t>({-7, -1, 0}));
  BOOST_TEST(tensor({true, false}).bitwise_not_().to_vector<bool>() == std::vector<bool>({false, true}));
}

BOOST_AUTO_TEST_SUITE_END()
