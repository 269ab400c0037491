// A member that its module forgot to register would silently not be trained.
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tendril/nn/dropout.h"
#include "tendril/nn/linear.h"
#include "tendril/nn/models/resnet.h"
#include "tendril/nn/sequential.h"
#include "tendril/tensor/creation.h"
#include "tests/errors.h"

BOOST_AUTO_TEST_SUITE(unregistered)

using tendril::Error;
using tendril::nn::Dropout;
using tendril::nn::Linear;
using tendril::nn::Module;
using tendril::testing::says;

namespace {

struct First : Module {
  Linear forgotten{2, 2}, known{2, 2};
  First() { register_module("known", known); }
};
struct Last : Module {
  Linear known{2, 2};
  Dropout forgotten{0.5};
  Last() { register_module("known", known); }
};
struct Owned : Module {
  Linear known{2, 2};
  std::vector<std::unique_ptr<Linear>> forgotten;
  Owned() {
    for (int i = 0; i < 2; ++i) forgotten.push_back(std::make_unique<Linear>(2, 2));
    register_module("known", known);
  }
};
struct Derived : Last {
  Linear known_too{2, 2};
  Derived() {
    register_module("forgotten", forgotten);
    register_module("known_too", known_too);
  }
};
struct Outer : Module {
  First inner;
  Outer() { register_module("inner", inner); }
};
template <class Layer>
struct Generic : Module {
  Layer known, forgotten;
  explicit Generic(const std::function<int(int)>& f) : known(f(2), 2), forgotten(2, 2) {
    register_module("known", known);
  }
};

struct Listed : Module {
  Linear known{2, 2}, known_too_{2, 2};
  tendril::Tensor scale = tendril::ones({2});
  TENDRIL_MEMBERS(known, known_too_, scale)
};
struct ListedButOne : Module {
  Linear known{2, 2}, forgotten{2, 2};
  TENDRIL_MEMBERS(known)
};
struct ListedLater : Listed {
  Linear more{2, 2};
  TENDRIL_MEMBERS(more)
};
struct MovableList : tendril::nn::Movable<MovableList> {
  Linear known{2, 2};
  TENDRIL_MEMBERS(known)
  tendril::Tensor forward(const tendril::Tensor& x) const { return known(x); }
};
struct Misnamed : Module {
  Linear layers[2] = {Linear(2, 2), Linear(2, 2)};
  TENDRIL_MEMBERS(layers[0], layers[1])
};

struct Tidy : Module {
  Linear known{2, 2}, teacher{2, 2};
  std::shared_ptr<Linear> shared;
  explicit Tidy(std::shared_ptr<Linear> given = std::make_shared<Linear>(2, 2)) : shared(std::move(given)) {
    const Linear temporary(2, 2);
    leave_out(teacher);
    register_module("known", known);
    register_module("shared", *shared);
  }
};
struct Chain : Module {
  std::vector<std::unique_ptr<Linear>> links;
  void grow() {
    links.push_back(std::make_unique<Linear>(2, 2));
    register_module(std::to_string(links.size()), *links.back());
  }
};

template <class M>
void check_found(M& module, const char* whose, const char* what) {
  BOOST_CHECK_EXCEPTION(module.parameters(), Error, says(whose, what, "was not registered", "register_module"));
  BOOST_CHECK_EXCEPTION(module.train(), Error, says(what));
  BOOST_CHECK_EXCEPTION(module.to(tendril::kFloat64), Error, says(what));
}

}  // namespace

BOOST_AUTO_TEST_CASE(listed_members_are_registered_by_name) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : ListedLater().named_parameters()) names.push_back(name);
  const std::vector<std::string> expected = {"scale",          "known.weight", "known.bias", "known_too.weight",
                                             "known_too.bias", "more.weight",  "more.bias"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
  BOOST_CHECK_EXCEPTION(ListedButOne().parameters(), Error, says("a module Linear", "not registered"));
  BOOST_CHECK_EXCEPTION(Misnamed(), Error, says("layers[0]", "expected names of members"));
  tendril::nn::Sequential moved{MovableList()};
  BOOST_TEST(moved.state_dict().size() == 2);
}

BOOST_AUTO_TEST_CASE(a_forgotten_member_is_an_error_wherever_it_stands) {
  First first;
  check_found(first, "First", "Linear");
  Last last;
  check_found(last, "Last", "Dropout");
  Owned owned;
  check_found(owned, "Owned", "Linear");
  Generic<Linear> generic([](int i) { return i; });
  check_found(generic, "Generic", "Linear");
  const auto on_the_heap = std::make_shared<First>();
  check_found(*on_the_heap, "First", "Linear");
}

BOOST_AUTO_TEST_CASE(a_forgotten_member_of_a_member_is_found_when_that_is_registered) {
  BOOST_CHECK_EXCEPTION(Outer(), Error, says("First", "Linear", "was not registered"));
}

BOOST_AUTO_TEST_CASE(a_derived_class_may_register_what_its_base_did_not) {
  Derived derived;
  BOOST_TEST(derived.parameters().size() == 4u);
}

BOOST_AUTO_TEST_CASE(temporary_shared_and_left_out_modules_are_no_members) {
  Tidy tidy, second(std::make_shared<Linear>(2, 2)), third(second.shared);
  BOOST_TEST(tidy.parameters().size() == 4u);
  BOOST_TEST(third.parameters().size() == 4u);
  third.train();
}

BOOST_AUTO_TEST_CASE(neighbours_are_no_members) {
  Chain chain;
  tendril::nn::Sequential one, other;
  Linear alone(2, 2);
  chain.grow();
  one.emplace<Linear>(2, 2);
  other.emplace<Linear>(2, 2);
  Tidy tidy;
  chain.grow();
  BOOST_TEST(chain.parameters().size() == 4u);
  BOOST_TEST(one.parameters().size() == 2u);
  BOOST_TEST(other.parameters().size() == 2u);
  BOOST_TEST(alone.parameters().size() == 2u);
  BOOST_TEST(tidy.parameters().size() == 4u);
}

BOOST_AUTO_TEST_CASE(modules_that_other_threads_make_meanwhile_are_no_members) {
  std::vector<std::thread> threads;
  std::vector<std::size_t> counts(4);
  for (std::size_t& count : counts) {
    threads.emplace_back([&count] {
      for (int i = 0; i < 200; ++i) {
        Tidy tidy;
        Linear alone(2, 2);
        count += tidy.parameters().size() + alone.parameters().size();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t count : counts) BOOST_TEST(count == 200u * 6);
}

BOOST_AUTO_TEST_CASE(constructors_are_told_from_other_functions) {
  using tendril::nn::detail::is_constructor;
  for (const char* text : {"A::A()", "A::A(int)", "{anonymous}::C::C()", "(anonymous namespace)::C::C()",
                           "B<T>::B(std::function<int(int)>, const int (&)[3]) [with T = float]", "main()::L::L(int)",
                           "n::B<std::string>::B(int) [T = std::string]", "constexpr P::P()"}) {
    BOOST_TEST(is_constructor(text), text);
  }
  for (const char* text : {"A::A()::<lambda()>", "void A::add()", "A& A::operator=(int)", "void A::operator()()", "A",
                           "A::~A()", "int main()", "", "::", "()", ")", "::()", "void f()", "A()"}) {
    BOOST_TEST(!is_constructor(text), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
