#pragma once

#include <memory>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "tendril/rpc/archive.h"
#include "tendril/rpc/call/function.h"
#include "tendril/rpc/call/function_traits.h"
#include "tendril/rpc/call/inbound_call.h"
#include "tendril/rpc/call/rref_state.h"
#include "tendril/rpc/threads/recycled.h"
#include "tendril/rpc/weak_self.h"
#include "tendril/tensor/export.h"

TENDRIL_API_BEGIN

/// The callee's side of a typed call: reads the arguments, runs the function and replies. Each kind of call is a type,
/// so that its mangled name is the function's identity.
///
/// A callable has `Arguments` (a tuple of the types that are sent), `Returned`, `WireSignature`, `run(Arguments&)` or,
/// with a receiver, `run(Receiver&, Arguments&)`, and `creates`, which is true if the result stays on this worker,
/// behind an RRef.
namespace tendril::rpc::detail {

template <class... T>
constexpr bool check_arguments(std::tuple<T...>*) {
  check_default_constructible<T...>();
  return true;
}

/// The part of a call in progress that does not depend on the function.
struct CallToRun : Recycled {
  explicit CallToRun(InboundCall&& request) : call(std::move(request)) {}
  virtual ~CallToRun() = default;
  /// Runs the function and replies.
  virtual void run(std::unique_ptr<CallToRun> self) = 0;

  InboundCall call;
  std::shared_ptr<RRefState> created;   // the reference to the result, if the call creates one
  std::shared_ptr<RRefState> receiver;  // the object of a method call
};

/// Replies with the error. The reference that the call was to create fails with it, too.
void fail(CallToRun& in, std::exception_ptr error);

/// Runs the call when its receiver has been created, or at once if it has been already. Holds no slot while it waits.
void run_when_receiver_ready(std::unique_ptr<CallToRun> in);

template <class Callable>
void run_and_answer(std::unique_ptr<CallToRun> in);

template <class Callable>
struct CallInProgress final : CallToRun {
  static_assert(check_arguments(static_cast<typename Callable::Arguments*>(nullptr)));

  using CallToRun::CallToRun;
  void run(std::unique_ptr<CallToRun> self) override { run_and_answer<Callable>(std::move(self)); }

  typename Callable::Arguments arguments{};
};

/// Takes the reference to the result out of a creating request, where it follows the references among the arguments.
/// Throws MessageError if it is missing.
std::shared_ptr<RRefState> take_created(Message& request);

template <class T>
void store(RRefState& created, std::shared_ptr<T> object) {
  if (!object) throw UsageError("the function returned a null pointer, expected an object for the RRef");
  attach_self(object.get(), created);
  created.set_value(object, typeid(T));
}

/// Replies with a value (none for void). If the callable creates, stores the value here and replies without it.
template <class Callable, class... Value>
void answer(CallInProgress<Callable>& in, Value&&... value) {
  Message result;
  if constexpr (Callable::creates) {
    using Result = typename ResultOf<typename Callable::Returned>::type;
    if constexpr (std::is_same_v<StoredType<Result>, Result>) {
      store(*in.created, std::make_shared<ObjectType<Result>>(std::forward<Value>(value)...));
    } else {
      store(*in.created, std::shared_ptr<StoredType<Result>>(std::forward<Value>(value)...));
    }
  } else {
    OutputArchive archive(result);
    (void)(archive << ... << value);
  }
  in.call.reply(std::move(result));
}

template <class Callable>
decltype(auto) run(CallInProgress<Callable>& in) {
  if constexpr (requires { typename Callable::Receiver; }) {
    const auto object =
        std::static_pointer_cast<typename Callable::Receiver>(in.receiver->object(typeid(typename Callable::Receiver)));
    // The call keeps the object alive until it has been answered, so the result may refer to the object.
    return Callable::run(*object, in.arguments);
  } else {
    return Callable::run(in.arguments);
  }
}

template <class Callable>
void run_and_answer(std::unique_ptr<CallToRun> request) {
  std::unique_ptr<CallInProgress<Callable>> in(static_cast<CallInProgress<Callable>*>(request.release()));
  using Returned = typename Callable::Returned;
  using Result = typename ResultOf<std::remove_cvref_t<Returned>>::type;
  in->call.begin();
  try {
    if constexpr (ResultOf<std::remove_cvref_t<Returned>>::later) {
      // The arguments live as long as the call, because a coroutine may hold references to them.
      Future<Result> later = run(*in);
      if (!later.valid()) throw UsageError("the function returned an empty Future");
      later.then([shared = std::shared_ptr<CallInProgress<Callable>>(std::move(in))](Future<Result> done) {
        try {
          done.state()->rethrow_error();
          if constexpr (std::is_void_v<Result>) {
            answer(*shared);
          } else if constexpr (std::is_copy_constructible_v<Result>) {
            answer(*shared, std::as_const(done.state()->value()));
          } else {
            answer(*shared, std::move(done.state()->value()));
          }
        } catch (...) {
          fail(*shared, std::current_exception());
        }
      });
    } else if constexpr (std::is_void_v<Result>) {
      run(*in);
      answer(*in);
    } else {
      answer(*in, run(*in));
    }
  } catch (...) {
    if (in) fail(*in, std::current_exception());
  }
}

template <class Tuple, std::size_t... i>
void read_arguments(InputArchive& archive, Tuple& arguments, std::index_sequence<i...>) {
  ((archive.expect(static_cast<int>(i) + 1, typeid(std::tuple_element_t<i, Tuple>)), archive >> std::get<i>(arguments)),
   ...);
}

/// Implements ServedFunction::invoke for every callable.
template <class Callable>
void serve(InboundCall& inbound) {
  auto in = std::make_unique<CallInProgress<Callable>>(std::move(inbound));
  using Arguments = typename Callable::Arguments;
  try {
    Message& request = in->call.request();
    if constexpr (Callable::creates) in->created = take_created(request);
    InputArchive archive(request, entry_of<Callable>().served.name.c_str());
    if constexpr (requires { typename Callable::Receiver; }) {
      archive.expect(0, typeid(typename Callable::Receiver));
      in->receiver = archive.reference();
      if (!in->receiver || !in->receiver->is_owner()) archive.fail("the receiver is not an object of this worker");
    }
    read_arguments(archive, in->arguments, std::make_index_sequence<std::tuple_size_v<Arguments>>());
    archive.finish();
  } catch (...) {
    return fail(*in, std::current_exception());
  }
  if constexpr (requires { typename Callable::Receiver; }) {
    run_when_receiver_ready(std::move(in));
  } else {
    run_and_answer<Callable>(std::move(in));
  }
}

// ---- Callables

template <auto F, bool keeps_result>
struct FunctionCallable {
  using Traits = Signature<decltype(F)>;
  using Arguments = typename WireTuple<typename Traits::Parameters>::type;
  using Returned = typename Traits::Return;
  using WireSignature = std::tuple<typename ResultOf<std::remove_cvref_t<Returned>>::type*, Arguments*>;
  static constexpr bool creates = keeps_result;
  // Not inlined: otherwise GCC 12 warns that variants among the arguments may be uninitialised.
  [[gnu::noinline]] static Returned run(Arguments& arguments) { return std::apply(F, std::move(arguments)); }
};
template <auto F>
struct FreeFunction : FunctionCallable<F, false> {
  static void invoke(InboundCall& call) { serve<FreeFunction>(call); }
};
template <auto F>
struct CreatingFunction : FunctionCallable<F, true> {
  static void invoke(InboundCall& call) { serve<CreatingFunction>(call); }
};

/// A method of the object that an RRef<T> refers to. T may inherit the method from F's class. The receiver is read as a
/// T, which is part of the function's identity.
template <class T, auto F, bool keeps_result>
struct MethodCallable {
  using Traits = Signature<decltype(F)>;
  using Receiver = T;
  using Arguments = typename WireTuple<typename Traits::Parameters>::type;
  using Returned = typename Traits::Return;
  using WireSignature = std::tuple<typename ResultOf<std::remove_cvref_t<Returned>>::type*, Arguments*>;
  static constexpr bool creates = keeps_result;
  [[gnu::noinline]] static Returned run(T& object, Arguments& arguments) {
    return std::apply([&](auto&&... argument) -> Returned { return (object.*F)(std::move(argument)...); },
                      std::move(arguments));
  }
};
template <class T, auto F>
struct Method : MethodCallable<T, F, false> {
  static void invoke(InboundCall& call) { serve<Method>(call); }
};
template <class T, auto F>
struct CreatingMethod : MethodCallable<T, F, true> {
  static void invoke(InboundCall& call) { serve<CreatingMethod>(call); }
};

template <class T, class... A>
struct Constructor {
  using Arguments = std::tuple<A...>;
  using Returned = std::shared_ptr<T>;
  using WireSignature = std::tuple<T*, Arguments*>;
  static constexpr bool creates = true;
  static Returned run(Arguments& arguments) {
    return std::apply([](A&... argument) { return std::make_shared<T>(std::move(argument)...); }, arguments);
  }
  static void invoke(InboundCall& call) { serve<Constructor>(call); }
};

/// Returns a copy of the referenced object (RRef::to_here).
template <class T>
struct Fetch {
  using Receiver = ObjectType<T>;
  using Arguments = std::tuple<>;
  using Returned = const Receiver&;
  using WireSignature = std::tuple<T*, Arguments*>;
  static constexpr bool creates = false;
  static Returned run(Receiver& object, Arguments&) { return object; }
  static void invoke(InboundCall& call) { serve<Fetch>(call); }
};

}  // namespace tendril::rpc::detail

TENDRIL_API_END
