#include "tendril/rpc/call/function.h"

#include <boost/test/unit_test.hpp>

#include "tendril/rpc/call/call_target.h"
#include "tendril/rpc/error.h"
#include "tendril/rpc/wire/type_name.h"

BOOST_AUTO_TEST_SUITE(function)

using namespace tendril;
using namespace tendril::rpc;

int overloaded(int x) { return x; }
int overloaded(double x) { return static_cast<int>(x); }
void with_reference(const std::vector<float>&) {}
static int hidden(int x) { return x; }
struct Holder {
  static int shown(int x) { return x; }  // a static member has external linkage
};

struct Base {
  int get() const { return 1; }
  int get(int x) { return x; }
};
struct Derived : Base {};
struct Named {
  explicit Named(std::string) {}
};
static int really_hidden(int x) { return x; }
namespace {
int unnamed(int x) { return x; }
}  // namespace

namespace {

template <auto F>
FunctionId id_of() {
  return rpc::detail::entry_of<rpc::detail::FreeFunction<F>>().id;
}
template <class Callable>
std::string name_of() {
  return rpc::detail::entry_of<Callable>().served.name;
}

}  // namespace

BOOST_AUTO_TEST_CASE(overloads_have_different_identities) {
  constexpr int (*with_int)(int) = &overloaded;
  constexpr int (*with_double)(double) = &overloaded;
  BOOST_TEST(id_of<with_int>() != id_of<with_double>());
  BOOST_TEST(id_of<with_int>() == id_of<with_int>());
}

BOOST_AUTO_TEST_CASE(method_identity_includes_the_receiver_type) {
  constexpr int (Base::*get)() const = &Base::get;
  using OfBase = rpc::detail::Method<Base, get>;
  using OfDerived = rpc::detail::Method<Derived, get>;
  BOOST_TEST(rpc::detail::entry_of<OfBase>().id != rpc::detail::entry_of<OfDerived>().id);
}

BOOST_AUTO_TEST_CASE(creating_call_has_a_different_identity) {
  constexpr int (*with_int)(int) = &overloaded;
  BOOST_TEST(id_of<with_int>() != rpc::detail::entry_of<rpc::detail::CreatingFunction<with_int>>().id);
}

BOOST_AUTO_TEST_CASE(referenced_functions_are_registered_before_main) {
  // This process has not called the method yet, but the program refers to it below.
  constexpr int (Base::*with_int)(int) = &Base::get;
  using Callable = rpc::detail::Method<Base, with_int>;
  const FunctionId id = rpc::detail::Registration<Callable>::entry().id;
  const ServedFunction* served = served_functions().find(id);
  BOOST_REQUIRE(served != nullptr);
  BOOST_TEST(served->name == "function::Base::get");
  if (id == 0) rpc::detail::entry_of<Callable>();  // the reference, which is never executed
  BOOST_TEST(served_functions().find(12345) == nullptr);
}

BOOST_AUTO_TEST_CASE(names_are_in_source_form) {
  BOOST_TEST(name_of<rpc::detail::FreeFunction<&with_reference>>() == "function::with_reference");
  constexpr int (Base::*get)() const = &Base::get;
  const std::string method = name_of<rpc::detail::Method<Derived, get>>();
  BOOST_TEST(method.starts_with("function::Base::get"));
  BOOST_TEST((name_of<rpc::detail::Constructor<Named, std::string>>() == "function::Named's constructor"));
  BOOST_TEST(name_of<rpc::detail::Fetch<std::string>>() == "RRef<std::string>::to_here");
}

BOOST_AUTO_TEST_CASE(calls_of_static_functions_are_refused) {
  BOOST_CHECK_EXCEPTION(id_of<&hidden>(), UsageError, [](const UsageError& error) {
    return std::string(error.what()).find("function::hidden") != std::string::npos;
  });
  BOOST_CHECK_THROW(id_of<&really_hidden>(), UsageError);
  BOOST_TEST(served_functions().find(rpc::detail::Registration<rpc::detail::FreeFunction<&hidden>>::entry().id) ==
             nullptr);
  BOOST_CHECK_NO_THROW(id_of<&Holder::shown>());
}

BOOST_AUTO_TEST_CASE(unnamed_namespace_functions_do_not_compile) {
  static_assert(!HasExternalLinkage<&unnamed>);
  static_assert(HasExternalLinkage<&with_reference>);
  BOOST_TEST(unnamed(1) + hidden(1) + really_hidden(1) == 3);
}

BOOST_AUTO_TEST_CASE(registering_twice_has_no_effect) {
  constexpr int (*with_int)(int) = &overloaded;
  const auto& entry = rpc::detail::entry_of<rpc::detail::FreeFunction<with_int>>();
  BOOST_TEST(rpc::detail::register_function(entry));
  BOOST_TEST(served_functions().find(entry.id) == &entry.served);
}

BOOST_AUTO_TEST_CASE(type_names_are_shortened) {
  BOOST_TEST(type_name(typeid(std::vector<std::vector<std::string>>)) == "std::vector<std::vector<std::string>>");
  BOOST_TEST(type_name(typeid(int)) == "int");
}

BOOST_AUTO_TEST_SUITE_END()
