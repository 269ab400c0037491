// An undefined tensor is an error that names the function and the argument, wherever one is given: every function of
// tensor/, autograd/ and nn/ that takes tensors (undefined_calls.h) is called with each of them undefined in turn.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tendril/tensor/creation.h"
#include "tests/nn/undefined_calls.h"

BOOST_AUTO_TEST_SUITE(undefined)

using namespace tendril;
using namespace tendril::undefined_calls;

namespace {

void check(const Call& one) {
  Tensors given = one.arguments();
  const std::string name = one.name, op = *one.op ? one.op : name.substr(0, name.find('<'));
  BOOST_TEST_CONTEXT(name) {
    BOOST_CHECK_NO_THROW(one.call(given));
    for (std::size_t i = 0; i < given.size(); ++i) {
      given = one.arguments();
      given[i] = Tensor();
      BOOST_TEST_CONTEXT("argument " << i) {
        try {
          one.call(given);
          BOOST_ERROR("no error");
        } catch (const Error& error) {
          const std::string text = error.what();
          BOOST_TEST(text.find("undefined") != std::string::npos, text);
          BOOST_TEST(text.substr(0, text.find(':')).find(op) != std::string::npos, text);
        }
      }
    }
  }
}

/// Every name that a header declares a function of tensors by.
std::set<std::string> declared() {
  const std::filesystem::path root = TENDRIL_TEST_DATA "/../../..";
  std::vector<std::filesystem::path> headers = {root / "tensor/raw.h",           root / "tensor/drivers/reduction.h",
                                                root / "tensor/drivers/along.h", root / "tensor/drivers/by_index.h",
                                                root / "tensor/creation.h",      root / "nn/init.h",
                                                root / "autograd/backward.h",    root / "autograd/gradcheck.h"};
  for (const auto& entry : std::filesystem::directory_iterator(root / "autograd/ops")) {
    if (entry.path().extension() == ".h") headers.push_back(entry.path());
  }
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return std::regex_replace(text.str(), std::regex("//[^\n]*|#[^\n]*(\\\\\n[^\n]*)*"), "");
  };
  std::set<std::string> names;
  const auto add_all = [&](const std::string& text, const std::regex& pattern) {
    for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
      names.insert((*match)[1]);
    }
  };
  for (const auto& header : headers) add_all(text_of(header), std::regex("\\b(\\w+)\\([^();]*\\bTensor\\b"));
  const std::string tensor = text_of(root / "tensor/tensor.h");
  const std::size_t begin = tensor.find("class Tensor {"), end = tensor.find(" private:", begin);
  add_all(tensor.substr(begin, end - begin), std::regex("[\\w>&] (\\w+)\\([^;{}]*\\)(?: const)?(?: noexcept)?[;\\s]"));
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(in_pointwise_functions_it_is_an_error) {
  for (const Call& one : pointwise()) check(one);
}
BOOST_AUTO_TEST_CASE(in_methods_it_is_an_error) {
  for (const Call& one : methods()) check(one);
}
BOOST_AUTO_TEST_CASE(in_functions_it_is_an_error) {
  for (const Call& one : functions()) check(one);
  for (const Call& one : functions_of_places()) check(one);
  for (const Call& one : functions_of_raw()) check(one);
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_leaf_that_has_none_is_refused_by_name) {
  const Tensor p = full({2, 3}, 0.5, {.requires_grad = true});
  BOOST_CHECK_EXCEPTION(p.grad().mul_(2), Error, [](const Error& error) {
    return error.what() == std::string("mul_: the tensor is undefined");
  });
}

BOOST_AUTO_TEST_CASE(every_declared_function_is_among_those_that_are_called) {
  std::set<std::string> called;
  for (const auto& calls : {pointwise(), methods(), functions_of_raw(), functions(), functions_of_places()}) {
    for (const Call& one : calls) called.insert(std::string(one.name).substr(0, std::string(one.name).find('<')));
  }
  // Those that an undefined tensor may be asked, those that hand its body on (null), one that is private (x[{...}] +=
  // calls it), and names that are no functions.
  const std::set<std::string> allowed = {"defined", "is_same", "impl", "impl_ref", "requires_grad", "to_string",
                                         "Tensor",  "body",    "name", "put",      "is_floating"};
  const std::set<std::string> names = declared();
  BOOST_TEST(names.size() > 100u);  // the headers were found and understood
  for (const std::string& name : names) {
    BOOST_TEST((called.contains(name) || allowed.contains(name)), name << " is not called");
  }
}

BOOST_AUTO_TEST_SUITE_END()
